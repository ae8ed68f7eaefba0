-- +goose Up
-- Whose a MAC address is, by what people asked for: of one VM in the whole fleet. Nothing else writes it. Where two VMs had one before this was
-- asked, the first keeps it and the other stays as it is until somebody changes its card.
CREATE TABLE vm_macs (
    mac   text COLLATE "C" NOT NULL CONSTRAINT mac_taken PRIMARY KEY,
    vm_id text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE
);
CREATE INDEX vm_macs_by_vm ON vm_macs (vm_id); -- what a VM gives back, and what goes with it

-- +goose StatementBegin
CREATE FUNCTION macs_of(spec jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT DISTINCT lower(mac #>> '{}') FROM jsonb_path_query(spec, '$.nics[*].mac') AS mac WHERE mac #>> '{}' <> ''
$$;

CREATE FUNCTION keep_macs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO vm_macs (mac, vm_id) SELECT n, NEW.id FROM macs_of(NEW.spec) n ORDER BY n;
    ELSIF OLD.spec->'nics' IS DISTINCT FROM NEW.spec->'nics' THEN
        DELETE FROM vm_macs m WHERE m.vm_id = NEW.id AND m.mac NOT IN (SELECT n FROM macs_of(NEW.spec) n);
        -- What it had before it may keep, though another has it.
        INSERT INTO vm_macs (mac, vm_id) SELECT n, NEW.id FROM macs_of(NEW.spec) n WHERE n IN (SELECT o FROM macs_of(OLD.spec) o) ORDER BY n ON CONFLICT DO NOTHING;
        INSERT INTO vm_macs (mac, vm_id) SELECT n, NEW.id FROM macs_of(NEW.spec) n WHERE n NOT IN (SELECT o FROM macs_of(OLD.spec) o) ORDER BY n;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
INSERT INTO vm_macs (mac, vm_id) SELECT n, v.id FROM vms v, macs_of(v.spec) n ORDER BY v.created_at, v.id ON CONFLICT DO NOTHING;
CREATE TRIGGER keep_macs AFTER INSERT OR UPDATE OF spec ON vms FOR EACH ROW EXECUTE FUNCTION keep_macs();

-- Which domain that Quantix did not make has a MAC address: asked for each new card, and for each VM's page.
CREATE INDEX found_vms_by_card ON found_vms USING gin ((status->'nics') jsonb_path_ops);

-- Port groups stand in their network's spec; whom they are open to stands here, as with networks. A grant goes with its port group.
CREATE TABLE port_group_grants (
    network_id text NOT NULL REFERENCES networks ON DELETE CASCADE,
    port_group text COLLATE "C" NOT NULL,
    project_id text REFERENCES projects ON DELETE CASCADE, -- NULL: to all
    CONSTRAINT port_group_granted_once UNIQUE NULLS NOT DISTINCT (network_id, port_group, project_id)
);
CREATE INDEX port_group_grants_by_project ON port_group_grants (project_id) WHERE project_id IS NOT NULL; -- what goes with a project

-- +goose StatementBegin
CREATE FUNCTION announce_port_group_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell('net:' || r.network_id);
BEGIN
    RETURN NULL;
END $$;

CREATE FUNCTION drop_port_group_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM port_group_grants g WHERE g.network_id = NEW.id
        AND NOT COALESCE(NEW.spec @> jsonb_build_object('portGroups', jsonb_build_array(jsonb_build_object('name', g.port_group))), false);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR DELETE ON port_group_grants FOR EACH ROW EXECUTE FUNCTION announce_port_group_grant();
CREATE TRIGGER drop_port_group_grants AFTER UPDATE OF spec ON networks FOR EACH ROW EXECUTE FUNCTION drop_port_group_grants();
