package control_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/control/identity"
	"quantix/internal/fleet"
)

// If PostgreSQL's disk is full, errors say so and the portal is not ready. The readiness check notices the full disk
// although its own row still fits into an existing page. The portal is ready again when the disk has space.
func TestPortalNotReadyWhenDatabaseDiskFull(t *testing.T) {
	r := newHostFixture(t)
	ready := func() error { return r.Ready(t.Context(), fleet.SystemActor) }
	if err := ready(); err != nil {
		t.Fatal(err)
	}
	// Simulate a full disk: inserting a project and creating a table fail, as they do without disk space.
	r.execSQL(`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	r.execSQL(`CREATE FUNCTION no_room_for_tables() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	r.execSQL(`CREATE TRIGGER no_room BEFORE INSERT ON projects FOR EACH ROW EXECUTE FUNCTION no_room()`)
	r.execSQL(`CREATE EVENT TRIGGER no_room_for_tables ON ddl_command_start WHEN TAG IN ('CREATE TABLE AS') EXECUTE FUNCTION no_room_for_tables()`)
	_, err := r.CreateProject(t.Context(), chief, identity.ProjectInput{Name: "shop"})
	if fleet.CodeOf(err) != fleet.Unavailable || !strings.Contains(err.Error(), "disk of the portal's PostgreSQL is full") {
		t.Errorf("the refusal: %v", err)
	}
	turns := func(what string, done func(error) bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for timeout := time.After(30 * time.Second); ; {
			err := ready()
			if done(err) {
				return
			}
			select {
			case <-tick.C:
			case <-timeout:
				t.Fatalf("%s: readiness is still %v", what, err)
			}
		}
	}
	turns("with a full disk", func(err error) bool { return err != nil && strings.Contains(err.Error(), "is full") })
	r.execSQL(`DROP EVENT TRIGGER no_room_for_tables`)
	turns("with room again", func(err error) bool { return err == nil })
}
