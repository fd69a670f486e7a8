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
    """Checks, before any work is done, that a model could be uploaded under a name.

    Args:
        name: The name of the repository, which must be ORG/NAME.

    Raises:
        OfclError: If the hub allows no such name, the name lacks its owner (ORG), or the package
            huggingface_hub is not installed.
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
    """Writes the files of a repository into a folder: what `upload` would send.

    Args:
        bundle: The bundle of the model.
        folder: The folder, which is made if it is missing. Files of an earlier export are replaced.

    Raises:
        OfclError: If the folder has other files.
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
    """Uploads a model to the hub, into a repository that is made if it does not exist yet.

    Args:
        bundle: The bundle of the model.
        name: The name of the repository, ORG/NAME.
        public: Whether everybody may see the repository.
        api: A `huggingface_hub.HfApi`, or another object with the same methods, for tests; None:
            the real hub, with the user's token.

    Returns:
        The address of the repository.

    Raises:
        OfclError: If the user is not logged in, the hub cannot be reached or refuses, or the
            repository exists, is public, and `public` is False.
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
    """Returns an `HfApi` with the user's token.

    Raises:
        OfclError: If the user is not logged in, so that there is no token.
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
    """Makes the error of an upload to the repository `name` that has failed."""
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return OfclError(
        f"the model cannot be uploaded to '{name}' ({reason}); look whether the hub can be reached "
        "and whether your token may write there, then try again"
    )
