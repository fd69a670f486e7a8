"""A model as a repository on the Hugging Face hub: the files of its bundle; README.md is the card.

A repository is private unless somebody says otherwise: a model may tell something about the people
from whose data it was learned, and what was public once cannot be taken back.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ofcl.bundle.bundle_files import Bundle, bundle_contents
from ofcl.errors import OfclError
from ofcl.storage.atomic_files import write_whole_bytes

HUB_EXTRA = "the hub needs the package huggingface_hub; install it with: pip install 'ofcl[hub]'"


def check_name(name: str) -> None:
    """Raises an error unless a name can be that of a repository of somebody.

    Args:
        name: The name that was given.

    Raises:
        OfclError: If it is not of the form ORG/NAME, or the package huggingface_hub is missing.
    """
    try:
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
    except ImportError:
        raise OfclError(HUB_EXTRA) from None
    try:
        validate_repo_id(name)
    except ValueError as error:
        raise OfclError(f"'{name}' cannot be the name of a repository: {error}") from None
    if name.count("/") != 1:
        raise OfclError(f"--hub '{name}' names no owner; expected ORG/NAME, such as clinic/scans")


def write_repository(bundle: Bundle, folder: Path) -> None:
    """Writes a folder with the files that an upload would have.

    Args:
        bundle: The bundle of the model.
        folder: The folder; it must not exist, be empty, or have nothing but such files.

    Raises:
        OfclError: If there is something else in it.
    """
    contents = bundle_contents(bundle)
    folder.mkdir(parents=True, exist_ok=True)
    if others := {path.name for path in folder.iterdir()} - contents.keys():
        raise OfclError(
            f"'{folder}' has '{min(others)}', which is not part of a model; name a folder that is "
            "empty or not there yet with --out"
        )
    for name, content in contents.items():
        write_whole_bytes(folder / name, content)


def upload(bundle: Bundle, name: str, *, public: bool = False, api: Any = None) -> str:
    """Uploads a model to the hub; a repository that is not there is made.

    Args:
        bundle: The bundle of the model.
        name: The name of the repository, ORG/NAME.
        public: Whether everybody may see it.
        api: The hub, a `huggingface_hub.HfApi`; None: the real one, with the user's token.

    Returns:
        The address of the repository.

    Raises:
        OfclError: If nobody is logged in, the hub cannot be reached or refuses, or a repository of
            this name is public and `public` was not said.
    """
    check_name(name)
    api = api or _logged_in()
    try:
        address = str(api.create_repo(name, repo_type="model", private=not public, exist_ok=True))
        seen_by_all = not api.model_info(name).private
    except Exception as error:  # of the network, the hub, the token
        raise _refused(name, error) from None
    if seen_by_all and not public:
        raise OfclError(
            f"the repository '{name}' is public; nothing was uploaded. Say --public if everybody "
            "may have this model, or choose another name"
        )
    with tempfile.TemporaryDirectory() as folder:
        write_repository(bundle, Path(folder))
        try:
            api.upload_folder(
                repo_id=name,
                repo_type="model",
                folder_path=Path(folder),
                commit_message="A model learned with ofcl",
            )
        except Exception as error:  # of the network, the hub, the token
            raise _refused(name, error) from None
    return address


def _logged_in() -> Any:
    """Returns the real hub.

    Raises:
        OfclError: If there is no token.
    """
    from huggingface_hub import HfApi, get_token

    token = get_token()
    if token is None:
        raise OfclError(
            "nobody is logged in to the hub; do it with: hf auth login (or set HF_TOKEN), or look "
            "at the files first with --dry-run"
        )
    return HfApi(token=token)


def _refused(name: str, error: Exception) -> OfclError:
    """Makes the error for a hub that cannot be reached, or does not do what it was asked."""
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return OfclError(
        f"the model cannot be uploaded to '{name}' ({reason}); look whether the hub can be reached "
        "and whether your token may write there, then try again"
    )
