package control_test

import (
	"testing"

	"quantix/internal/fleet"
)

func TestABulkActionIsFollowed(t *testing.T) {
	s := newSite(t)
	web, db := s.vm("web", fleet.Running), s.vm("db", fleet.Stopped)
	job, err := s.ActVM(t.Context(), s.member, web.ID, fleet.ActShutdown)
	if err != nil {
		t.Fatal(err)
	}
	results := fleet.BulkResults{{VM: web.ID, Name: "web", Task: job.ID}, {VM: db.ID, Name: "db", Error: "Only a running VM can be shut down."}}
	id, err := s.KeepBulk(t.Context(), s.member, fleet.ActShutdown, results)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.GetBulk(t.Context(), s.member, id)
	if err != nil || b.Action != fleet.ActShutdown || len(b.Results) != 2 || b.Results[0] != results[0] || b.Results[1] != results[1] ||
		len(b.Tasks) != 1 || b.Tasks[job.ID].State != fleet.JobQueued || b.Tasks[job.ID].HostName != "h1" {
		t.Fatalf("%+v %v", b, err)
	}
	s.exec(`UPDATE jobs SET state = 'failed', error = 'no answer' WHERE id = $1`, job.ID)
	if b, err = s.GetBulk(t.Context(), s.member, id); err != nil || b.Tasks[job.ID].State != fleet.JobFailed || b.Tasks[job.ID].Error != "no answer" {
		t.Errorf("%+v %v", b, err)
	}
	s.refused("another's", fleet.NotFound, "There is no such bulk action.", func() error { _, err := s.GetBulk(t.Context(), chief, id); return err })
	s.refused("no id", fleet.NotFound, "There is no such bulk action.", func() error { _, err := s.GetBulk(t.Context(), s.member, "x"); return err })
	s.refused("viewer", fleet.Forbidden, "no right", func() error { _, err := s.KeepBulk(t.Context(), s.viewer, fleet.ActStart, nil); return err })
	s.refused("nobody's", fleet.Forbidden, "Only a person's", func() error {
		_, err := s.KeepBulk(t.Context(), fleet.SystemActor, fleet.ActStart, nil)
		return err
	})

	// Who has lost the project keeps what was refused, and sees none of its tasks.
	elsewhere := s.member
	elsewhere.Projects = map[fleet.ProjectID]fleet.Role{s.blue: fleet.RoleMember}
	if b, err = s.GetBulk(t.Context(), elsewhere, id); err != nil || len(b.Tasks) != 0 || len(b.Results) != 2 {
		t.Errorf("%+v %v", b, err)
	}
	if err := s.Sweep(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetBulk(t.Context(), s.member, id); err != nil {
		t.Errorf("swept at once: %v", err)
	}
	s.exec(`UPDATE bulk_actions SET created_at = now() - interval '25 hours'`)
	if err := s.Sweep(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.refused("a day later", fleet.NotFound, "There is no such bulk action.", func() error { _, err := s.GetBulk(t.Context(), s.member, id); return err })
}
