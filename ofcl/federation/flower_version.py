"""The version of Flower that the adapters are written for, and all that they assume of it.

Flower has a public interface for apps that it starts itself. A federation here needs more: a server
behind a guard, parties that are never sent code, a run that is a process of its own. The adapters
(the modules called `flower_…`, and `engines/flower/`) therefore use Flower's private interfaces,
which may change with any version; `flower_app/` uses the public one alone. This module writes down
every one of them, and `flower_check` compares them with the Flower that is installed.

To move to another version: install it, change `VERSION` here and in `pyproject.toml`, run
`tests/federation/test_flower_version.py`, mend the adapters where it points, and run
`tests/processes/test_deployment.py`.

Besides names and parameters, the adapters rely on these behaviours:

- `flower_superlink` reads `sys.argv`, looks up `flwr.superlink.main.create_app` when it is called,
  and hands the app to `uvicorn.run`. So the guard can be put around the app.
- Everything for parties is below `/v1/fleet/`, where a party's key is asked for; everything for the
  process of a run is below `/v1/runtime/`, where the executor's secret or a task's token is asked
  for; the rest, below `/v1/control/`, asks for nothing. The guard depends on it.
- `fleet_handlers.push_messages` is looked up when a party sends a message, after its key was
  checked against `request.node`. So `flower_replies` can be put in its place.
- An answer is handed out once by `PullMessages`, and its content follows in parts.
- The signed requests of a party carry the time; the server refuses one that is
  `SYSTEM_TIME_TOLERANCE` ahead, or that much and `TIMESTAMP_TOLERANCE` behind.
- A party counts as connected until `HEARTBEAT_PATIENCE` intervals have passed without a heartbeat.
- Messages and their parts are identified by a hash of their content, which is kept in the metadata
  as `_message_id`.
"""

from __future__ import annotations

from collections.abc import Mapping

VERSION = "1.41.0"

NAMES: Mapping[str, tuple[str, ...]] = {
    "flwr.app": ("ConfigRecord", "Context", "Error", "Message", "Metadata", "RecordDict"),
    "flwr.app.message": ("remove_content_from_message",),
    "flwr.cli.build": ("build_fab_from_files",),
    "flwr.clientapp": ("ClientApp",),
    "flwr.common.constant": (
        "ErrorCode", "HEARTBEAT_PATIENCE", "SYSTEM_TIME_TOLERANCE", "SubStatus",
        "TIMESTAMP_TOLERANCE",
    ),
    "flwr.common.serde": (
        "fab_to_proto", "message_from_proto", "message_to_proto", "run_from_proto",
    ),
    "flwr.proto.control_pb2": (
        "ListNodesRequest", "RegisterNodeRequest", "StartRunRequest", "UnregisterNodeRequest",
    ),
    "flwr.proto.fleet_pb2": (
        "ActivateNodeRequest", "DeactivateNodeRequest", "PullMessagesRequest",
        "PushMessagesRequest",
    ),
    "flwr.proto.heartbeat_pb2": ("SendNodeHeartbeatRequest",),
    "flwr.proto.message_pb2": ("ConfirmMessageReceivedRequest",),
    "flwr.proto.node_pb2": ("Node",),
    "flwr.proto.runtime_pb2": (
        "AcquireTaskRequest", "PullAppMessagesRequest", "PullTaskInputRequest",
        "PushTaskOutputRequest", "SendTaskHeartbeatRequest",
    ),
    "flwr.serverapp": ("Grid", "ServerApp"),
    "flwr.simulation": ("run_simulation",),
    "flwr.supercore.constant": ("TaskType",),
    "flwr.supercore.control": ("ControlHttpClient",),
    "flwr.supercore.error": ("ApiErrorCode", "FlowerError"),
    "flwr.supercore.fab": ("Fab",),
    "flwr.supercore.heartbeat": ("HeartbeatSender",),
    "flwr.supercore.inflatable.inflatable_object": (
        "get_all_nested_objects", "get_object_tree", "iterate_object_tree",
        "no_object_id_recompute",
    ),
    "flwr.supercore.inflatable.inflatable_protobuf_utils": (
        "make_pull_object_fn_protobuf", "make_push_object_fn_protobuf",
    ),
    "flwr.supercore.inflatable.inflatable_utils": (
        "ObjectPullError", "ObjectPushError", "ObjectUnavailableError",
        "inflate_object_from_contents", "pull_objects", "push_objects",
    ),
    "flwr.supercore.interceptors": (
        "RuntimeVersionHttpInterceptor", "SuperExecAuthHttpInterceptor",
    ),
    "flwr.supercore.primitives.asymmetric": ("public_key_to_bytes",),
    "flwr.supercore.runtime": ("RuntimeHttpClient",),
    "flwr.supercore.task_identity": ("TaskIdentity",),
    "flwr.superlink.cli": ("flower_superlink",),
    "flwr.superlink.grid": ("HttpGrid", "InMemoryGrid"),
    "flwr.superlink.servicer.fleet": ("fleet_handlers",),
    "flwr.superlink.main": ("control_router", "create_app", "fleet_router"),
    "flwr.supernode.fleet_http_client": ("FleetHttpClient",),
    "flwr.supernode.node_auth_http_interceptor": ("NodeAuthHttpInterceptor",),
}  # fmt: skip
"""Names by the modules of Flower that they are imported from."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "flwr.app:Error": ("code", "reason"),
    "flwr.app:Message": ("dst_node_id", "message_type", "ttl", "reply_to"),
    "flwr.cli.build:build_fab_from_files": ("files",),
    "flwr.simulation:run_simulation": (
        "server_app", "client_app", "num_supernodes", "backend_config",
    ),
    "flwr.supercore.control:ControlHttpClient.from_server_address": (
        "server_address", "insecure", "root_certificates", "interceptors",
    ),
    "flwr.supercore.fab:Fab": ("hash_str", "content", "verifications"),
    "flwr.supercore.heartbeat:HeartbeatSender": ("heartbeat_fn",),
    "flwr.supercore.inflatable.inflatable_protobuf_utils:make_pull_object_fn_protobuf": (
        "pull_object_protobuf", "node", "run_id",
    ),
    "flwr.supercore.inflatable.inflatable_protobuf_utils:make_push_object_fn_protobuf": (
        "push_object_protobuf", "node", "run_id", "session_id",
    ),
    "flwr.supercore.inflatable.inflatable_utils:inflate_object_from_contents": (
        "object_id", "object_contents",
    ),
    "flwr.supercore.inflatable.inflatable_utils:pull_objects": (
        "object_ids", "pull_object_fn", "initial_backoff", "max_time",
    ),
    "flwr.supercore.inflatable.inflatable_utils:push_objects": (
        "objects", "push_object_fn", "object_ids_to_push",
    ),
    "flwr.supercore.interceptors:RuntimeVersionHttpInterceptor": ("component_name",),
    "flwr.supercore.interceptors:SuperExecAuthHttpInterceptor": (
        "master_secret", "protected_methods",
    ),
    "flwr.supercore.runtime:RuntimeHttpClient.from_server_address": (
        "server_address", "insecure", "root_certificates", "interceptors",
    ),
    "flwr.superlink.servicer.fleet.fleet_handlers:push_messages": ("request", "state"),
    "flwr.superlink.grid:HttpGrid": (
        "runtime_api_address", "insecure", "root_certificates", "token",
    ),
    "flwr.superlink.grid:InMemoryGrid": ("pull_interval",),
    "flwr.supernode.fleet_http_client:FleetHttpClient.from_server_address": (
        "server_address", "insecure", "root_certificates", "interceptors",
    ),
    "flwr.supernode.node_auth_http_interceptor:NodeAuthHttpInterceptor": (
        "private_key", "public_key",
    ),
}  # fmt: skip
"""Parameters that the adapters pass, by the function or class."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "flwr.app:Message": ("content", "error", "has_content", "has_error", "metadata", "object_id"),
    "flwr.app:RecordDict": ("config_records",),
    "flwr.common.constant:ErrorCode": ("CLIENT_APP_RAISED_EXCEPTION",),
    "flwr.common.constant:SubStatus": ("COMPLETED",),
    "flwr.supercore.constant:TaskType": ("SERVER_APP",),
    "flwr.supercore.control:ControlHttpClient": (
        "ListNodes", "RegisterNode", "StartRun", "UnregisterNode",
    ),
    "flwr.supercore.heartbeat:HeartbeatSender": ("is_running", "start", "stop"),
    "flwr.supercore.runtime:RuntimeHttpClient": (
        "AcquireTask", "ConfirmMessageReceived", "PullMessages", "PullObject", "PullTaskInput",
        "PushTaskOutput", "SendTaskHeartbeat",
    ),
    "flwr.superlink.grid:HttpGrid": (
        "_runtime_client", "close", "push_messages", "run", "set_run",
    ),
    "flwr.supernode.fleet_http_client:FleetHttpClient": (
        "ActivateNode", "ConfirmMessageReceived", "DeactivateNode", "PullMessages", "PullObject",
        "PushMessages", "PushObject", "SendNodeHeartbeat",
    ),
}  # fmt: skip
"""Attributes and methods that the adapters use, by the class."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "flwr.proto.control_pb2:ListNodesResponse": ("nodes_info",),
    "flwr.proto.control_pb2:RegisterNodeRequest": ("public_key", "name"),
    "flwr.proto.control_pb2:StartRunRequest": ("fab",),
    "flwr.proto.control_pb2:StartRunResponse": ("run_id",),
    "flwr.proto.control_pb2:UnregisterNodeRequest": ("node_id",),
    "flwr.proto.fleet_pb2:ActivateNodeRequest": ("public_key", "heartbeat_interval"),
    "flwr.proto.fleet_pb2:ActivateNodeResponse": ("node_id",),
    "flwr.proto.fleet_pb2:DeactivateNodeRequest": ("node_id",),
    "flwr.proto.fleet_pb2:PullMessagesRequest": ("node",),
    "flwr.proto.fleet_pb2:PullMessagesResponse": ("messages_list", "message_object_trees"),
    "flwr.proto.fleet_pb2:PushMessagesRequest": (
        "node", "messages_list", "message_object_trees", "clientapp_runtime_list",
    ),
    "flwr.proto.fleet_pb2:PushMessagesResponse": ("objects_to_push", "session_id"),
    "flwr.proto.heartbeat_pb2:SendNodeHeartbeatRequest": ("node", "heartbeat_interval"),
    "flwr.proto.heartbeat_pb2:SendNodeHeartbeatResponse": ("success",),
    "flwr.proto.message_pb2:ConfirmMessageReceivedRequest": (
        "node", "run_id", "message_object_id",
    ),
    "flwr.proto.node_pb2:NodeInfo": (
        "node_id", "name", "status", "last_activated_at", "last_deactivated_at",
    ),
    "flwr.proto.runtime_pb2:AcquireTaskRequest": ("supported_task_types",),
    "flwr.proto.runtime_pb2:AcquireTaskResponse": ("token",),
    "flwr.proto.runtime_pb2:PullAppMessagesRequest": ("message_ids",),
    "flwr.proto.runtime_pb2:PullAppMessagesResponse": ("messages_list", "message_object_trees"),
    "flwr.proto.runtime_pb2:PullTaskInputResponse": ("context", "run", "task_id"),
    "flwr.proto.runtime_pb2:PushTaskOutputRequest": ("sub_status", "details"),
}  # fmt: skip
"""Fields that the adapters set or read, by the protobuf message."""

SERVER_OPTIONS = (
    "--database", "--disable-runtime-dependency-installation", "--enable-supernode-auth", "--host",
    "--insecure", "--isolation", "--port", "--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile",
    "--superexec-auth-secret-file",
)  # fmt: skip
"""Options of `flower-superlink` that the server is started with."""
