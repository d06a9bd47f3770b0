--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: _duroxide_migrations; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38._duroxide_migrations (
    version bigint NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: executions; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.executions (
    instance_id text NOT NULL,
    execution_id bigint NOT NULL,
    status text DEFAULT 'Running'::text NOT NULL,
    output text,
    started_at timestamp with time zone NOT NULL,
    completed_at timestamp with time zone,
    duroxide_version_major integer,
    duroxide_version_minor integer,
    duroxide_version_patch integer
);


--
-- Name: history; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.history (
    instance_id text NOT NULL,
    execution_id bigint NOT NULL,
    event_id bigint NOT NULL,
    event_type text NOT NULL,
    event_data text NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: instance_locks; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.instance_locks (
    instance_id text NOT NULL,
    lock_token text NOT NULL,
    locked_until bigint NOT NULL,
    locked_at bigint NOT NULL
);


--
-- Name: instances; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.instances (
    instance_id text NOT NULL,
    orchestration_name text NOT NULL,
    orchestration_version text,
    current_execution_id bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    parent_instance_id text,
    custom_status text,
    custom_status_version integer DEFAULT 0 NOT NULL
);


--
-- Name: kv_delta; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.kv_delta (
    instance_id text NOT NULL,
    key text NOT NULL,
    value text,
    last_updated_at_ms bigint NOT NULL
);


--
-- Name: kv_store; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.kv_store (
    instance_id text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    execution_id bigint NOT NULL,
    last_updated_at_ms bigint DEFAULT 0 NOT NULL
);


--
-- Name: orchestrator_queue; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.orchestrator_queue (
    id bigint NOT NULL,
    instance_id text NOT NULL,
    work_item text NOT NULL,
    visible_at timestamp with time zone NOT NULL,
    lock_token text,
    locked_until bigint,
    created_at timestamp with time zone NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL
);


--
-- Name: orchestrator_queue_id_seq; Type: SEQUENCE; Schema: published_0_1_38; Owner: -
--

CREATE SEQUENCE published_0_1_38.orchestrator_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: orchestrator_queue_id_seq; Type: SEQUENCE OWNED BY; Schema: published_0_1_38; Owner: -
--

ALTER SEQUENCE published_0_1_38.orchestrator_queue_id_seq OWNED BY published_0_1_38.orchestrator_queue.id;


--
-- Name: sessions; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.sessions (
    session_id text NOT NULL,
    worker_id text NOT NULL,
    locked_until bigint NOT NULL,
    last_activity_at bigint NOT NULL
);


--
-- Name: worker_queue; Type: TABLE; Schema: published_0_1_38; Owner: -
--

CREATE TABLE published_0_1_38.worker_queue (
    id bigint NOT NULL,
    work_item text NOT NULL,
    visible_at timestamp with time zone NOT NULL,
    lock_token text,
    locked_until bigint,
    created_at timestamp with time zone NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    instance_id text,
    execution_id bigint,
    activity_id bigint,
    session_id text,
    tag text
);


--
-- Name: worker_queue_id_seq; Type: SEQUENCE; Schema: published_0_1_38; Owner: -
--

CREATE SEQUENCE published_0_1_38.worker_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: worker_queue_id_seq; Type: SEQUENCE OWNED BY; Schema: published_0_1_38; Owner: -
--

ALTER SEQUENCE published_0_1_38.worker_queue_id_seq OWNED BY published_0_1_38.worker_queue.id;


--
-- Name: orchestrator_queue id; Type: DEFAULT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.orchestrator_queue ALTER COLUMN id SET DEFAULT nextval('published_0_1_38.orchestrator_queue_id_seq'::regclass);


--
-- Name: worker_queue id; Type: DEFAULT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.worker_queue ALTER COLUMN id SET DEFAULT nextval('published_0_1_38.worker_queue_id_seq'::regclass);


--
-- Data for Name: _duroxide_migrations; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38._duroxide_migrations VALUES
	(1, '0001_initial_schema.sql', '2026-11-17 21:39:37.966733+00'),
	(2, '0002_create_stored_procedures.sql', '2026-11-17 21:39:38.042648+00'),
	(3, '0003_add_attempt_count.sql', '2026-11-17 21:39:38.058636+00'),
	(4, '0004_update_stored_procedures_for_attempt_count.sql', '2026-11-17 21:39:38.062643+00'),
	(5, '0005_add_visible_at_to_worker_queue.sql', '2026-11-17 21:39:38.07063+00'),
	(6, '0006_use_rust_timestamps.sql', '2026-11-17 21:39:38.074621+00'),
	(7, '0007_add_execution_state_support.sql', '2026-11-17 21:39:38.086636+00'),
	(8, '0008_remove_execution_state.sql', '2026-11-17 21:39:38.094579+00'),
	(9, '0009_add_activity_cancellation_support.sql', '2026-11-17 21:39:38.102625+00'),
	(10, '0010_add_deletion_and_pruning_support.sql', '2026-11-17 21:39:38.130637+00'),
	(11, '0011_fix_cancellation_ordering.sql', '2026-11-17 21:39:38.142642+00'),
	(12, '0012_require_timestamps.sql', '2026-11-17 21:39:38.146631+00'),
	(13, '0013_add_capability_filtering.sql', '2026-11-17 21:39:38.162641+00'),
	(14, '0014_add_session_support.sql', '2026-11-17 21:39:38.175587+00'),
	(15, '0015_add_custom_status.sql', '2026-11-17 21:39:38.206648+00'),
	(16, '0016_add_activity_tags.sql', '2026-11-17 21:39:38.21858+00'),
	(17, '0017_retry_orchestration_fetch_on_contention.sql', '2026-11-17 21:39:38.238639+00'),
	(18, '0018_add_kv_store.sql', '2026-11-17 21:39:38.246635+00'),
	(19, '0019_add_kv_last_updated.sql', '2026-11-17 21:39:38.274663+00'),
	(20, '0020_add_kv_delta.sql', '2026-11-17 21:39:38.286631+00'),
	(21, '0021_add_get_instance_stats.sql', '2026-11-17 21:39:38.306641+00'),
	(23, '0023_partial_secondary_indexes.sql', '2026-11-17 21:39:38.31462+00'),
	(25, '0025_fetch_orchestration_lease_at_claim.sql', '2026-11-17 21:39:38.354687+00'),
	(26, '0026_serialize_orchestration_lock_mutations.sql', '2026-11-17 21:39:38.366595+00');


--
-- Data for Name: executions; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.executions VALUES
	('holding', 1, 'Running', NULL, '2026-11-17 21:39:38.491+00', NULL, 0, 1, 32),
	('sleeping', 1, 'Running', NULL, '2026-11-17 21:39:38.499+00', NULL, 0, 1, 32),
	('asking', 1, 'Running', NULL, '2026-11-17 21:39:38.514+00', NULL, 0, 1, 32),
	('reading', 1, 'Running', NULL, '2026-11-17 21:39:38.52+00', NULL, 0, 1, 32),
	('counting', 1, 'ContinuedAsNew', '2', '2026-11-17 21:39:38.528+00', NULL, 0, 1, 32),
	('raising', 1, 'Running', NULL, '2026-11-17 21:39:38.538+00', NULL, 0, 1, 32),
	('serving', 1, 'Running', NULL, '2026-11-17 21:39:38.541+00', NULL, 0, 1, 32),
	('completed', 1, 'Completed', 'hello', '2026-11-17 21:39:38.455+00', '2026-11-17 21:39:38.546+00', 0, 1, 32),
	('failed', 1, 'Failed', 'refused', '2026-11-17 21:39:38.475+00', '2026-11-17 21:39:38.567+00', 0, 1, 32),
	('counting', 2, 'ContinuedAsNew', '3', '2026-11-17 21:39:38.572+00', NULL, 0, 1, 32),
	('raising::sub::2', 1, 'Running', NULL, '2026-11-17 21:39:38.583+00', NULL, 0, 1, 32),
	('counting', 3, 'Running', NULL, '2026-11-17 21:39:38.602+00', NULL, 0, 1, 32);


--
-- Data for Name: history; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.history VALUES
	('completed', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"completed","execution_id":1,"timestamp_ms":1794951578454,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"echoes","version":"1.0.0","input":"hello","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.455+00'),
	('completed', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"completed","execution_id":1,"timestamp_ms":1794951578454,"duroxide_version":"0.1.32","type":"ActivityScheduled","name":"echo","input":"hello"}', '2026-11-17 21:39:38.455+00'),
	('failed', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"failed","execution_id":1,"timestamp_ms":1794951578475,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"refuses","version":"1.0.0","input":"hello","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.475+00'),
	('failed', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"failed","execution_id":1,"timestamp_ms":1794951578475,"duroxide_version":"0.1.32","type":"ActivityScheduled","name":"refuse","input":"hello"}', '2026-11-17 21:39:38.475+00'),
	('holding', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"holding","execution_id":1,"timestamp_ms":1794951578490,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"holds","version":"1.0.0","input":"tight","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.491+00'),
	('holding', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"holding","execution_id":1,"timestamp_ms":1794951578490,"duroxide_version":"0.1.32","type":"ActivityScheduled","name":"echo","input":"tight"}', '2026-11-17 21:39:38.491+00'),
	('sleeping', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"sleeping","execution_id":1,"timestamp_ms":1794951578499,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"sleeps","version":"1.0.0","input":"rested","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.499+00'),
	('sleeping', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"sleeping","execution_id":1,"timestamp_ms":1794951578499,"duroxide_version":"0.1.32","type":"TimerCreated","fire_at_ms":1794951598499}', '2026-11-17 21:39:38.499+00'),
	('asking', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"asking","execution_id":1,"timestamp_ms":1794951578514,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"asks","version":"1.0.0","input":"they said","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.514+00'),
	('asking', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"asking","execution_id":1,"timestamp_ms":1794951578514,"duroxide_version":"0.1.32","type":"CustomStatusUpdated","status":"asked"}', '2026-11-17 21:39:38.514+00'),
	('asking', 1, 3, 'Event', '{"event_id":3,"source_event_id":null,"instance_id":"asking","execution_id":1,"timestamp_ms":1794951578514,"duroxide_version":"0.1.32","type":"ExternalSubscribed","name":"answer"}', '2026-11-17 21:39:38.514+00'),
	('reading', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"reading","execution_id":1,"timestamp_ms":1794951578520,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"reads","version":"1.0.0","input":"","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.52+00'),
	('reading', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"reading","execution_id":1,"timestamp_ms":1794951578520,"duroxide_version":"0.1.32","type":"ExternalEventPersistent","name":"letters","data":"first"}', '2026-11-17 21:39:38.52+00'),
	('reading', 1, 3, 'Event', '{"event_id":3,"source_event_id":null,"instance_id":"reading","execution_id":1,"timestamp_ms":1794951578520,"duroxide_version":"0.1.32","type":"ExternalSubscribedPersistent","name":"letters"}', '2026-11-17 21:39:38.52+00'),
	('reading', 1, 4, 'Event', '{"event_id":4,"source_event_id":null,"instance_id":"reading","execution_id":1,"timestamp_ms":1794951578520,"duroxide_version":"0.1.32","type":"ExternalSubscribedPersistent","name":"letters"}', '2026-11-17 21:39:38.52+00'),
	('counting', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"counting","execution_id":1,"timestamp_ms":1794951578528,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"counts","version":"1.0.0","input":"1","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.528+00'),
	('counting', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"counting","execution_id":1,"timestamp_ms":1794951578528,"duroxide_version":"0.1.32","type":"KeyValueSet","key":"round-1","value":"seen","last_updated_at_ms":1794951578528}', '2026-11-17 21:39:38.528+00'),
	('counting', 1, 3, 'Event', '{"event_id":3,"source_event_id":null,"instance_id":"counting","execution_id":1,"timestamp_ms":1794951578528,"duroxide_version":"0.1.32","type":"OrchestrationContinuedAsNew","input":"2"}', '2026-11-17 21:39:38.528+00'),
	('raising', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"raising","execution_id":1,"timestamp_ms":1794951578538,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"raises","version":"1.0.0","input":"it said","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.538+00'),
	('raising', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"raising","execution_id":1,"timestamp_ms":1794951578538,"duroxide_version":"0.1.32","type":"SubOrchestrationScheduled","name":"asks","instance":"sub::2","input":"it said"}', '2026-11-17 21:39:38.538+00'),
	('serving', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"serving","execution_id":1,"timestamp_ms":1794951578541,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"serves","version":"1.0.0","input":"soup","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.541+00'),
	('serving', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"serving","execution_id":1,"timestamp_ms":1794951578541,"duroxide_version":"0.1.32","type":"ActivityScheduled","name":"echo","input":"soup","session_id":"desk"}', '2026-11-17 21:39:38.541+00'),
	('completed', 1, 3, 'Event', '{"event_id":3,"source_event_id":2,"instance_id":"completed","execution_id":1,"timestamp_ms":1794951578546,"duroxide_version":"0.1.32","type":"ActivityCompleted","result":"hello"}', '2026-11-17 21:39:38.546+00'),
	('completed', 1, 4, 'Event', '{"event_id":4,"source_event_id":null,"instance_id":"completed","execution_id":1,"timestamp_ms":1794951578546,"duroxide_version":"0.1.32","type":"OrchestrationCompleted","output":"hello"}', '2026-11-17 21:39:38.546+00'),
	('failed', 1, 3, 'Event', '{"event_id":3,"source_event_id":2,"instance_id":"failed","execution_id":1,"timestamp_ms":1794951578567,"duroxide_version":"0.1.32","type":"ActivityFailed","details":{"Application":{"kind":"ActivityFailed","message":"refused","retryable":false}}}', '2026-11-17 21:39:38.567+00'),
	('failed', 1, 4, 'Event', '{"event_id":4,"source_event_id":null,"instance_id":"failed","execution_id":1,"timestamp_ms":1794951578567,"duroxide_version":"0.1.32","type":"OrchestrationFailed","details":{"Application":{"kind":"OrchestrationFailed","message":"refused","retryable":false}}}', '2026-11-17 21:39:38.567+00'),
	('counting', 2, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"counting","execution_id":2,"timestamp_ms":1794951578572,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"counts","version":"1.0.0","input":"2","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.572+00'),
	('counting', 2, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"counting","execution_id":2,"timestamp_ms":1794951578572,"duroxide_version":"0.1.32","type":"KeyValueSet","key":"round-2","value":"seen","last_updated_at_ms":1794951578572}', '2026-11-17 21:39:38.572+00'),
	('counting', 2, 3, 'Event', '{"event_id":3,"source_event_id":null,"instance_id":"counting","execution_id":2,"timestamp_ms":1794951578572,"duroxide_version":"0.1.32","type":"OrchestrationContinuedAsNew","input":"3"}', '2026-11-17 21:39:38.572+00'),
	('raising::sub::2', 1, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"raising::sub::2","execution_id":1,"timestamp_ms":1794951578583,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"asks","version":"1.0.0","input":"it said","parent_instance":"raising","parent_id":2,"parent_execution_id":1}', '2026-11-17 21:39:38.583+00'),
	('raising::sub::2', 1, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"raising::sub::2","execution_id":1,"timestamp_ms":1794951578583,"duroxide_version":"0.1.32","type":"CustomStatusUpdated","status":"asked"}', '2026-11-17 21:39:38.583+00'),
	('raising::sub::2', 1, 3, 'Event', '{"event_id":3,"source_event_id":null,"instance_id":"raising::sub::2","execution_id":1,"timestamp_ms":1794951578583,"duroxide_version":"0.1.32","type":"ExternalSubscribed","name":"answer"}', '2026-11-17 21:39:38.583+00'),
	('holding', 1, 3, 'Event', '{"event_id":3,"source_event_id":2,"instance_id":"holding","execution_id":1,"timestamp_ms":1794951578586,"duroxide_version":"0.1.32","type":"ActivityCompleted","result":"tight"}', '2026-11-17 21:39:38.587+00'),
	('holding', 1, 4, 'Event', '{"event_id":4,"source_event_id":null,"instance_id":"holding","execution_id":1,"timestamp_ms":1794951578586,"duroxide_version":"0.1.32","type":"ActivityScheduled","name":"hold","input":"tight"}', '2026-11-17 21:39:38.587+00'),
	('serving', 1, 3, 'Event', '{"event_id":3,"source_event_id":2,"instance_id":"serving","execution_id":1,"timestamp_ms":1794951578600,"duroxide_version":"0.1.32","type":"ActivityCompleted","result":"soup"}', '2026-11-17 21:39:38.601+00'),
	('serving', 1, 4, 'Event', '{"event_id":4,"source_event_id":null,"instance_id":"serving","execution_id":1,"timestamp_ms":1794951578600,"duroxide_version":"0.1.32","type":"ActivityScheduled","name":"hold","input":"soup","session_id":"desk"}', '2026-11-17 21:39:38.601+00'),
	('counting', 3, 1, 'Event', '{"event_id":1,"source_event_id":null,"instance_id":"counting","execution_id":3,"timestamp_ms":1794951578602,"duroxide_version":"0.1.32","type":"OrchestrationStarted","name":"counts","version":"1.0.0","input":"3","parent_instance":null,"parent_id":null}', '2026-11-17 21:39:38.602+00'),
	('counting', 3, 2, 'Event', '{"event_id":2,"source_event_id":null,"instance_id":"counting","execution_id":3,"timestamp_ms":1794951578602,"duroxide_version":"0.1.32","type":"KeyValueSet","key":"round-3","value":"seen","last_updated_at_ms":1794951578602}', '2026-11-17 21:39:38.602+00'),
	('counting', 3, 3, 'Event', '{"event_id":3,"source_event_id":null,"instance_id":"counting","execution_id":3,"timestamp_ms":1794951578602,"duroxide_version":"0.1.32","type":"ExternalSubscribed","name":"answer"}', '2026-11-17 21:39:38.602+00');


--
-- Data for Name: instance_locks; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.instance_locks VALUES
	('unbegun', 'lock_2af70f48-6e62-4166-935d-5680e3a9904e', 1794951608729, 1794951578726);


--
-- Data for Name: instances; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.instances VALUES
	('sleeping', 'sleeps', '1.0.0', 1, '2026-11-17 21:39:38.499+00', '2026-11-17 21:39:38.499+00', NULL, NULL, 0),
	('asking', 'asks', '1.0.0', 1, '2026-11-17 21:39:38.514+00', '2026-11-17 21:39:38.514+00', NULL, 'asked', 1),
	('reading', 'reads', '1.0.0', 1, '2026-11-17 21:39:38.52+00', '2026-11-17 21:39:38.52+00', NULL, NULL, 0),
	('raising', 'raises', '1.0.0', 1, '2026-11-17 21:39:38.538+00', '2026-11-17 21:39:38.538+00', NULL, NULL, 0),
	('completed', 'echoes', '1.0.0', 1, '2026-11-17 21:39:38.455+00', '2026-11-17 21:39:38.546+00', NULL, NULL, 0),
	('failed', 'refuses', '1.0.0', 1, '2026-11-17 21:39:38.475+00', '2026-11-17 21:39:38.567+00', NULL, NULL, 0),
	('raising::sub::2', 'asks', '1.0.0', 1, '2026-11-17 21:39:38.583+00', '2026-11-17 21:39:38.583+00', 'raising', 'asked', 1),
	('holding', 'holds', '1.0.0', 1, '2026-11-17 21:39:38.491+00', '2026-11-17 21:39:38.587+00', NULL, NULL, 0),
	('serving', 'serves', '1.0.0', 1, '2026-11-17 21:39:38.541+00', '2026-11-17 21:39:38.601+00', NULL, NULL, 0),
	('counting', 'counts', '1.0.0', 3, '2026-11-17 21:39:38.528+00', '2026-11-17 21:39:38.602+00', NULL, NULL, 0);


--
-- Data for Name: kv_delta; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.kv_delta VALUES
	('counting', 'round-3', 'seen', 1794951578602);


--
-- Data for Name: kv_store; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.kv_store VALUES
	('counting', 'round-1', 'seen', 1, 1794951578528),
	('counting', 'round-2', 'seen', 2, 1794951578572);


--
-- Data for Name: orchestrator_queue; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.orchestrator_queue VALUES
	(11, 'sleeping', '{"TimerFired": {"id": 2, "instance": "sleeping", "fire_at_ms": 1794951598499, "execution_id": 1}}', '2026-11-17 21:39:58.499+00', NULL, NULL, '2026-11-17 21:39:38.499+00', 0),
	(20, 'reading', '{"QueueMessage":{"instance":"reading","name":"letters","data":"second"}}', '2026-11-17 21:39:38.712+00', NULL, NULL, '2026-11-17 21:39:38.720295+00', 0),
	(21, 'asking', '{"ExternalRaised":{"instance":"asking","name":"answer","data":"yes"}}', '2026-11-17 21:39:38.722+00', NULL, NULL, '2026-11-17 21:39:38.722764+00', 0),
	(19, 'unbegun', '{"StartOrchestration":{"instance":"unbegun","orchestration":"echoes","input":"late","version":null,"parent_instance":null,"parent_id":null,"execution_id":1}}', '2026-11-17 21:39:38.708+00', 'lock_2af70f48-6e62-4166-935d-5680e3a9904e', 1794951608729, '2026-11-17 21:39:38.709782+00', 1);


--
-- Data for Name: sessions; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.sessions VALUES
	('desk', 'work-1-5f58', 1794951608679, 1794951578679);


--
-- Data for Name: worker_queue; Type: TABLE DATA; Schema: published_0_1_38; Owner: -
--

INSERT INTO published_0_1_38.worker_queue VALUES
	(5, '{"ActivityExecute": {"id": 4, "name": "hold", "input": "tight", "instance": "holding", "execution_id": 1}}', '2026-11-17 21:39:38.587+00', 'lock_a40587da-407a-4b3c-a505-dc1210fa920c', 1794951608665, '2026-11-17 21:39:38.587+00', 1, 'holding', 1, 4, NULL, NULL),
	(6, '{"ActivityExecute": {"id": 4, "name": "hold", "input": "soup", "instance": "serving", "session_id": "desk", "execution_id": 1}}', '2026-11-17 21:39:38.601+00', 'lock_8554a949-0c96-4337-9053-b0530499f6da', 1794951608679, '2026-11-17 21:39:38.601+00', 1, 'serving', 1, 4, 'desk', NULL);


--
-- Name: orchestrator_queue_id_seq; Type: SEQUENCE SET; Schema: published_0_1_38; Owner: -
--

SELECT pg_catalog.setval('published_0_1_38.orchestrator_queue_id_seq', 21, true);


--
-- Name: worker_queue_id_seq; Type: SEQUENCE SET; Schema: published_0_1_38; Owner: -
--

SELECT pg_catalog.setval('published_0_1_38.worker_queue_id_seq', 6, true);


--
-- Name: _duroxide_migrations _duroxide_migrations_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38._duroxide_migrations
    ADD CONSTRAINT _duroxide_migrations_pkey PRIMARY KEY (version);


--
-- Name: executions executions_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.executions
    ADD CONSTRAINT executions_pkey PRIMARY KEY (instance_id, execution_id);


--
-- Name: history history_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (instance_id, execution_id, event_id);


--
-- Name: instance_locks instance_locks_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.instance_locks
    ADD CONSTRAINT instance_locks_pkey PRIMARY KEY (instance_id);


--
-- Name: instances instances_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.instances
    ADD CONSTRAINT instances_pkey PRIMARY KEY (instance_id);


--
-- Name: kv_delta kv_delta_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.kv_delta
    ADD CONSTRAINT kv_delta_pkey PRIMARY KEY (instance_id, key);


--
-- Name: kv_store kv_store_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.kv_store
    ADD CONSTRAINT kv_store_pkey PRIMARY KEY (instance_id, key);


--
-- Name: orchestrator_queue orchestrator_queue_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.orchestrator_queue
    ADD CONSTRAINT orchestrator_queue_pkey PRIMARY KEY (id);


--
-- Name: sessions sessions_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (session_id);


--
-- Name: worker_queue worker_queue_pkey; Type: CONSTRAINT; Schema: published_0_1_38; Owner: -
--

ALTER TABLE ONLY published_0_1_38.worker_queue
    ADD CONSTRAINT worker_queue_pkey PRIMARY KEY (id);


--
-- Name: idx_history_lookup; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_history_lookup ON published_0_1_38.history USING btree (instance_id, execution_id, event_id);


--
-- Name: idx_instance_locks_lock_token; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE UNIQUE INDEX idx_instance_locks_lock_token ON published_0_1_38.instance_locks USING btree (lock_token);


--
-- Name: idx_instance_locks_locked_until; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_instance_locks_locked_until ON published_0_1_38.instance_locks USING btree (locked_until);


--
-- Name: idx_instances_parent; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_instances_parent ON published_0_1_38.instances USING btree (parent_instance_id);


--
-- Name: idx_kv_store_execution; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_kv_store_execution ON published_0_1_38.kv_store USING btree (instance_id, execution_id);


--
-- Name: idx_orch_instance; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_orch_instance ON published_0_1_38.orchestrator_queue USING btree (instance_id);


--
-- Name: idx_orch_lock; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_orch_lock ON published_0_1_38.orchestrator_queue USING btree (lock_token) WHERE (lock_token IS NOT NULL);


--
-- Name: idx_orch_visible; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_orch_visible ON published_0_1_38.orchestrator_queue USING btree (visible_at, lock_token);


--
-- Name: idx_worker_activity_lookup; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_worker_activity_lookup ON published_0_1_38.worker_queue USING btree (instance_id, execution_id, activity_id);


--
-- Name: idx_worker_available; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_worker_available ON published_0_1_38.worker_queue USING btree (lock_token, id);


--
-- Name: idx_worker_queue_session_id; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_worker_queue_session_id ON published_0_1_38.worker_queue USING btree (session_id) WHERE (session_id IS NOT NULL);


--
-- Name: idx_worker_queue_tag; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_worker_queue_tag ON published_0_1_38.worker_queue USING btree (tag) WHERE (tag IS NOT NULL);


--
-- Name: idx_worker_visible; Type: INDEX; Schema: published_0_1_38; Owner: -
--

CREATE INDEX idx_worker_visible ON published_0_1_38.worker_queue USING btree (visible_at, lock_token);


--
-- PostgreSQL database dump complete
--


