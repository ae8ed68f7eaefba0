-- +goose Up
-- Who follows wake-ups or looks at a console is judged anew when their rights change. Key: user:<id>. A visit is no such change.
-- +goose StatementBegin
CREATE FUNCTION announce_rights() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r jsonb;
BEGIN
    r := to_jsonb(COALESCE(NEW, OLD));
    PERFORM pg_notify('quantix', 'user:' || COALESCE(r->>'user_id', r->>'id'));
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER announce AFTER DELETE ON users FOR EACH ROW EXECUTE FUNCTION announce_rights();
CREATE TRIGGER announce_change AFTER UPDATE ON users FOR EACH ROW
    WHEN (OLD.role <> NEW.role OR OLD.disabled <> NEW.disabled OR OLD.sessions_from <> NEW.sessions_from)
    EXECUTE FUNCTION announce_rights();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON project_members FOR EACH ROW EXECUTE FUNCTION announce_rights();
CREATE TRIGGER announce AFTER DELETE ON tokens FOR EACH ROW EXECUTE FUNCTION announce_rights();
