"""The REST calls of all doors."""

from agentic_backend.transports.admin_agents_api import AdminAgentsApi
from agentic_backend.transports.admin_api import AdminApi
from agentic_backend.transports.attachments_api import AttachmentsApi
from agentic_backend.transports.branches_api import BranchesApi
from agentic_backend.transports.chat_runs.api import ChatRunsApi
from agentic_backend.transports.classic_api import ClassicApi
from agentic_backend.transports.contract.contract_api import ContractApi
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.exchanges_api import ExchangesApi
from agentic_backend.transports.feedback_api import FeedbackApi
from agentic_backend.transports.info_api import InfoApi
from agentic_backend.transports.metrics_api import MetricsApi
from agentic_backend.transports.operation import Operation
from agentic_backend.transports.playground_api import PlaygroundApi
from agentic_backend.transports.query_api import QueryApi
from agentic_backend.transports.rest import RestApi
from agentic_backend.transports.search_api import SearchApi
from agentic_backend.transports.session_config_api import SessionConfigApi
from agentic_backend.transports.session_exchanges_api import SessionExchangesApi
from agentic_backend.transports.session_export_api import SessionExportApi
from agentic_backend.transports.session_list_events_api import SessionListEventsApi
from agentic_backend.transports.session_stream.session_stream_api import SessionStreamApi
from agentic_backend.transports.sharing_api import SharingApi
from agentic_backend.transports.sign_in_api import SignInApi
from agentic_backend.transports.trust_api import TrustApi
from agentic_backend.transports.usage_api import UsageApi
from agentic_backend.transports.user_data_api import UserDataApi


def all_operations(services: DoorServices) -> list[Operation]:
    apis = (
        SessionListEventsApi(services),
        RestApi(services),
        BranchesApi(services.branches),
        ExchangesApi(services),
        SessionExchangesApi(services.exchange_pages),
        SearchApi(services.sessions),
        QueryApi(services),
        AttachmentsApi(services),
        ClassicApi(services),
        MetricsApi(services),
        SessionConfigApi(services),
        UsageApi(services.usage),
        TrustApi(services.trust),
        PlaygroundApi(services),
        SessionExportApi(services.sessions, services.session_export),
        SharingApi(services.sharing, services.agents),
        FeedbackApi(services.feedback, services.admin_reads),
        ChatRunsApi(services),
        UserDataApi(services),
        AdminApi(services.admin_reads),
        AdminAgentsApi(services.agent_admin),
        SessionStreamApi(services),
        SignInApi(services),
    )
    declared = [operation for api in apis for operation in api.operations()]
    declared += InfoApi(services, declared).operations()
    return [*declared, *ContractApi(declared).operations()]
