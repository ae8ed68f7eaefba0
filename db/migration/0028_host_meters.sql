-- +goose Up
-- What a host measured of its VMs is one row, written with each of its beats: as a row a VM that was most of what PostgreSQL did for a fleet at
-- rest. The lists stand side by side, a VM at one place in all of them. They have no trigger: load changes on every report and wakes nobody.
-- before_*: of the measurement before; before_ids NULL: of the same VMs. A VM's load is read in the row of the host that it is on, so that no
-- host tells of another's.
DROP TABLE vm_meters;
CREATE UNLOGGED TABLE host_meters (
    host_id       text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    at            timestamptz NOT NULL,
    vm_ids        text[] COLLATE "C" NOT NULL,
    cpu_nanos     bigint[] NOT NULL,
    memory_bytes  bigint[] NOT NULL,
    read_bytes    bigint[] NOT NULL,
    write_bytes   bigint[] NOT NULL,
    receive_bytes bigint[] NOT NULL,
    send_bytes    bigint[] NOT NULL,
    before_at     timestamptz,
    before_ids    text[] COLLATE "C",
    before_cpu    bigint[]
) WITH (fillfactor = 50, toast_tuple_target = 8160);
