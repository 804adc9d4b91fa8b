"""The REST calls of all doors but those of applications."""

from collections.abc import Callable, Sequence

from agentic_backend.auth.user import User
from agentic_backend.transports.calls.admin.admin_agents_api import AdminAgentsApi
from agentic_backend.transports.calls.admin.admin_api import AdminApi
from agentic_backend.transports.calls.sessions.app_calls_api import AppCallsApi
from agentic_backend.transports.calls.sessions.attachments_api import AttachmentsApi
from agentic_backend.transports.calls.sessions.exchanges_api import ExchangesApi, TrustApi
from agentic_backend.transports.calls.sessions.feedback_api import FeedbackApi
from agentic_backend.transports.calls.sessions.query_api import QueryApi
from agentic_backend.transports.calls.sessions.search_api import SearchApi
from agentic_backend.transports.calls.sessions.session_config_api import SessionConfigApi
from agentic_backend.transports.calls.sessions.session_exchanges_api import SessionExchangesApi
from agentic_backend.transports.calls.sessions.session_export_api import SessionExportApi
from agentic_backend.transports.calls.sessions.sessions_api import BranchesApi, SessionListEventsApi, SessionsApi
from agentic_backend.transports.calls.sessions.sharing_api import SharingApi
from agentic_backend.transports.calls.users.info_api import ApplicationView, InfoApi, SignInApi
from agentic_backend.transports.calls.users.metrics_api import MetricsApi
from agentic_backend.transports.calls.users.playground_api import PlaygroundApi
from agentic_backend.transports.calls.users.usage_api import UsageApi
from agentic_backend.transports.calls.users.user_data_api import UserDataApi
from agentic_backend.transports.chat_runs.api import ChatRunsApi
from agentic_backend.transports.classic.api import ClassicApi
from agentic_backend.transports.contract.contract_api import ContractApi
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import Operation
from agentic_backend.transports.session_stream.session_stream_api import SessionStreamApi


def all_operations(
    services: DoorServices, applications: Callable[[User], Sequence[ApplicationView]] = lambda user: ()
) -> list[Operation]:
    """`applications` tells those that serve now."""
    apis = (
        SessionListEventsApi(services),
        SessionsApi(services),
        BranchesApi(services.sessions.branches),
        ExchangesApi(services),
        SessionExchangesApi(services.sessions.exchange_pages),
        SearchApi(services.sessions.service),
        QueryApi(services),
        AttachmentsApi(services),
        AppCallsApi(services.sessions.app_calls),
        ClassicApi(services),
        MetricsApi(services),
        SessionConfigApi(services),
        UsageApi(services.sessions.usage),
        TrustApi(services.sessions.trust),
        PlaygroundApi(services),
        SessionExportApi(services.sessions.service, services.sessions.session_export),
        SharingApi(services.sessions.sharing, services.agents),
        FeedbackApi(services.sessions.feedback, services.sessions.admin_reads),
        ChatRunsApi(services),
        UserDataApi(services),
        AdminApi(services.sessions.admin_reads),
        AdminAgentsApi(services.sessions.agent_admin),
        SessionStreamApi(services),
        SignInApi(services),
    )
    declared = [operation for api in apis for operation in api.operations()]
    if "openai" in services.doors:
        # Only where it is open: its bodies take a start some time.
        from agentic_backend.transports.openai.openai_door import openai_operations

        declared += openai_operations(services)
    if "mcp" in services.doors:
        from agentic_backend.transports.mcp.mcp_api import McpApi

        declared += McpApi(services).operations()
    if "ag-ui" in services.doors:
        from agentic_backend.transports.ag_ui.ag_ui_api import AgUiApi

        declared += AgUiApi(services).operations()
    declared += InfoApi(services, declared, applications).operations()
    return [*declared, *ContractApi(declared).operations()]
