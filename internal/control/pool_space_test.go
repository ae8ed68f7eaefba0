package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// setPoolSizes sets the sizes that a host reports for a pool, in MiB.
func (s *projectFixture) setPoolSizes(pool fleet.PoolID, capacity, used, allocated int64) {
	s.t.Helper()
	s.execSQL(`UPDATE assignments SET status = status || jsonb_build_object('capacityBytes', $2::bigint << 20, 'usedBytes', $3::bigint << 20,
		'availableBytes', ($2::bigint - $3::bigint) << 20, 'provisionedBytes', $4::bigint << 20) WHERE pool_id = $1`, pool, capacity, used, allocated)
}

// Only administrators can overcommit a pool, and only if they choose overcommit.
func TestPoolOvercommitNeedsConsent(t *testing.T) {
	s := newProjectFixture(t)
	s.setPoolSizes(s.local, 48, 8, 10) // 30 MiB are free
	ask := func(name string, host fleet.HostID, overcommit bool, mib ...int64) control.CreateVM {
		in := control.CreateVM{ProjectID: s.red, HostID: host, Name: name, Overcommit: overcommit, Spec: smallSpec}
		for _, size := range mib {
			in.Spec.Disks = append(in.Spec.Disks, fleet.Disk{PoolID: s.local, SizeBytes: size << 20})
		}
		return in
	}
	create := func(a fleet.Actor, in control.CreateVM) func() error {
		return func() error { _, err := s.CreateVM(context.Background(), a, in); return err }
	}
	fields := func(err error) (all []string) {
		if e, ok := errors.AsType[*fleet.Error](err); ok {
			for _, f := range e.Fields {
				all = append(all, f.Field+": "+f.Message)
			}
		}
		return all
	}
	named := create(chief, ask("web", s.h1, false, 1024))
	s.wantRefused("a disk larger than its pool", fleet.Invalid, "2 fields", named)
	want := "spec.disks[0].sizeBytes: Pool local on h1 has 30 MiB not provisioned to volumes, and the new disks may grow to 1 GiB.|" +
		"overcommit: To proceed anyway, overcommit the pool."
	if got := strings.Join(fields(named()), "|"); got != want {
		t.Errorf("the refusal says\n%s, want\n%s", got, want)
	}
	s.wantRefused("of two disks together", fleet.Invalid, "", create(chief, ask("web", s.h1, false, 16, 16)))
	s.wantRefused("by placement", fleet.Invalid, "", create(chief, ask("web", "", false, 1024)))
	s.wantRefused("a member's", fleet.Invalid, "no room for 1 GiB in pool local", create(s.member, ask("web", "", false, 1024)))
	s.wantRefused("a member with overcommit", fleet.Invalid, "Only those who may change infrastructure", create(s.member, ask("web", "", true, 8)))

	if err := create(s.member, ask("fits", "", false, 16))(); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("beside a disk that is not yet created", fleet.Invalid, "no room for 16 MiB in pool local", create(s.member, ask("second", "", false, 16)))
	if err := create(s.member, ask("second", "", false, 14))(); err != nil {
		t.Errorf("a disk that just fits: %v", err)
	}
	if err := create(chief, ask("large", s.h1, true, 1024))(); err != nil {
		t.Errorf("an administrator with overcommit: %v", err)
	}
	if err := create(chief, ask("placed", "", true, 1024))(); err != nil {
		t.Errorf("an administrator with overcommit, without a named host: %v", err)
	}
}

// Space for a disk created from an image is reserved in the pool as soon as the VM is requested.
func TestImageDisksReservePoolSpaceBeforeCreation(t *testing.T) {
	s := newProjectFixture(t)
	image, _ := s.publishImage(s.local, []fleet.HostID{s.h1}, "large.qcow2", "qcow2", 20<<20)
	s.addVolume(s.local, s.h1, `{"name": "large.qcow2", "path": "/v/large.qcow2", "format": "qcow2", "capacityBytes": 20971520}`)
	s.setPoolSizes(s.local, 48, 8, 10) // 30 MiB are free
	create := func(name string) error {
		in := control.CreateVM{ProjectID: s.red, Name: name, Spec: smallSpec}
		in.Spec.Disks = []fleet.Disk{{PoolID: s.local, ImageID: image}}
		_, err := s.CreateVM(t.Context(), s.member, in)
		return err
	}
	if err := create("first"); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a second request", fleet.Invalid, "no room for 20 MiB in pool local", func() error { return create("second") })
}

func TestFullPoolNeedsAttention(t *testing.T) {
	s := newProjectFixture(t)
	see := func(tone fleet.Severity, summary, attention string) {
		t.Helper()
		v := s.poolView(chief, s.local)
		if v.Health.Severity != tone || v.Health.Summary != summary {
			t.Errorf("health is %s, %q, want %s, %q", v.Health.Severity, v.Health.Summary, tone, summary)
		}
		page, err := s.ListPools(t.Context(), chief, fleet.Query{Filter: "local health:" + string(tone)})
		if err != nil || len(page.Items) != 1 {
			t.Errorf("the list of tone %s has %d pools, %v", tone, len(page.Items), err)
		}
		o, err := s.Overview(t.Context(), chief)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, a := range o.Attention {
			if a.Kind == "pool" {
				got = string(a.Severity) + " " + a.Name + ": " + a.Text + " " + a.Objects[0].Text
			}
		}
		if got != attention {
			t.Errorf("attention is %q, want %q", got, attention)
		}
	}
	s.setPoolSizes(s.local, 1000, 899, 0)
	see(fleet.SeverityOK, "1 of 1 hosts healthy", "")
	s.setPoolSizes(s.local, 1000, 900, 0)
	see(fleet.SeverityWarn, "1 of 1 hosts healthy, nearly full", "warn local: Nearly full on h1, 90 % used")
	s.setPoolSizes(s.local, 1000, 970, 0)
	see(fleet.SeverityBad, "1 of 1 hosts healthy, full", "bad local: Full on h1, 97 % used")

	s.setPoolSizes(s.local, 1000, 100, 0)
	v, err := s.CreateVM(t.Context(), chief, control.CreateVM{
		ProjectID: s.red, HostID: s.h1, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{{PoolID: s.local, SizeBytes: 1 << 20}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const paused = "bad local: VMs are paused, because their storage is full or fails on h1, 10 % used"
	for _, status := range []string{
		`{"power":"paused","reason":"I/O error"}`, `{"power":"paused","reason":"other","faults":[{"code":"io","text":"no space"}]}`,
	} {
		s.execSQL(`UPDATE vms SET observed_generation = generation, status = $2 WHERE id = $1`, v.ID, status)
		see(fleet.SeverityBad, "1 of 1 hosts healthy, full", paused)
	}
	s.execSQL(`UPDATE vms SET status = '{"power":"paused","reason":"by a person"}' WHERE id = $1`, v.ID)
	see(fleet.SeverityOK, "1 of 1 hosts healthy", "")
}

// A pool that a person stopped on the host is shown as stopped, and is started again only on request.
func TestPoolStoppedExternallyIsNotRestarted(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE assignments SET observed_generation = 1 WHERE noun = 'pool'`)
	drift := func() string {
		t.Helper()
		s.execSQL(`DELETE FROM tasks`)
		if err := s.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		return s.jobList(fleet.SubjectPool(s.local))
	}
	for status, want := range map[string]string{
		// The drift pass queues no job for a pool that is active, that a person stopped, or that the agent repairs itself.
		`{"state":"active"}`: "", `{"state":"inactive","byOthers":true}`: "", `{"state":"failed","error":"gone"}`: "",
		`{"state":"inactive","error":"no storage pool with matching name"}`: "pool.apply queued",
	} {
		s.execSQL(`UPDATE assignments SET status = $2 WHERE pool_id = $1`, s.local, status)
		if got := drift(); got != want {
			t.Errorf("%s: queued %q, want %q", status, got, want)
		}
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"inactive","byOthers":true}' WHERE pool_id = $1`, s.local)
	v := s.poolView(chief, s.local)
	if v.Health.Severity != fleet.SeverityBad || v.Hosts[0].State != fleet.PoolInactive || v.Hosts[0].Notice != "Stopped on the host outside Quantix" {
		t.Errorf("shown is %+v", v)
	}
	s.execSQL(`DELETE FROM tasks`)
	if _, err := s.Retry(t.Context(), chief, fleet.SubjectPool(s.local), s.h1); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(fleet.SubjectPool(s.local)); got != "pool.apply queued" {
		t.Errorf("a person's order queued %q", got)
	}
}
