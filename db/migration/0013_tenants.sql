-- +goose Up
-- What tenants may use and hear of, and what remembers them.

-- A network that leads out of Quantix by itself (a host's bridge) is only for those projects that it is granted to.
-- project_id NULL: all of them.
CREATE TABLE network_grants (
    network_id text NOT NULL REFERENCES networks ON DELETE CASCADE,
    project_id text REFERENCES projects ON DELETE CASCADE
);
CREATE UNIQUE INDEX network_grant_once ON network_grants (network_id, (COALESCE(project_id, '')));
CREATE INDEX network_grants_by_project ON network_grants (project_id);

-- leads_out is true of bridges, and of libvirt's networks that hand on a bridge or a device of the host.
-- +goose StatementBegin
CREATE FUNCTION leads_out(network text, kind text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT kind = 'bridge' OR EXISTS (SELECT 1 FROM network_hosts h
        WHERE h.network_id = network AND h.status->>'forward' IN ('bridge', 'vepa', 'private', 'passthrough', 'hostdev'))
$$;
-- +goose StatementEnd

-- A browser that an account has signed in with: the hash of its secret. Wrong passwords from elsewhere do not lock it out.
CREATE TABLE browsers (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
    hash         bytea NOT NULL,
    last_used_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT browser_known_once UNIQUE (hash, user_id)
);
CREATE INDEX browsers_by_user ON browsers (user_id, last_used_at);
CREATE INDEX browsers_by_age ON browsers (last_used_at);

-- A token that was made with another goes with it, and so on down the chain.
ALTER TABLE tokens ADD COLUMN made_with text REFERENCES tokens ON DELETE CASCADE;
CREATE INDEX tokens_made_with ON tokens (made_with);

-- Who did what is written once. The portal owns its tables, so a trigger stands where a grant would not: nothing changes a
-- line, and only lines older than a year may go.
-- +goose StatementBegin
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.at < now() - interval '1 year' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit lines are never changed, and stay for a year' USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
CREATE INDEX audit_by_age ON audit (at);

-- Keys beside those of before, for people who see some projects only: vms:<project>, tasks:<project>, project:<id>. They hear
-- of nothing else, so that nobody can time what others do.
-- +goose StatementBegin
CREATE FUNCTION announce_to_project() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN PERFORM pg_notify('quantix', 'vms:' || r.project_id);
        WHEN 'jobs' THEN
            IF r.project_id IS NOT NULL AND r.kind <> 'console.open' THEN
                PERFORM pg_notify('quantix', 'tasks:' || r.project_id);
            END IF;
        WHEN 'projects' THEN PERFORM pg_notify('quantix', 'project:' || r.id);
    END CASE;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce_to_project AFTER INSERT OR DELETE ON vms FOR EACH ROW EXECUTE FUNCTION announce_to_project();
CREATE TRIGGER announce_change_to_project AFTER UPDATE ON vms FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION announce_to_project();
CREATE TRIGGER announce_to_project AFTER INSERT OR DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION announce_to_project();
CREATE TRIGGER announce_change_to_project AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.progress <> NEW.progress OR OLD.note <> NEW.note OR OLD.run_after <> NEW.run_after)
    EXECUTE FUNCTION announce_to_project();
CREATE TRIGGER announce_to_project AFTER INSERT OR UPDATE OR DELETE ON projects FOR EACH ROW EXECUTE FUNCTION announce_to_project();
