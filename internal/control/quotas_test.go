package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/wire"
)

// limit returns a hard limit.
func limit(n int64) quota.Limit { return quota.Limit{Hard: &n} }

func (s *projectFixture) setQuota(project fleet.ProjectID, q quota.Quota) {
	s.t.Helper()
	if _, err := s.SetQuota(s.t.Context(), chief, project, q); err != nil {
		s.t.Fatal(err)
	}
}

func (s *projectFixture) usage(project fleet.ProjectID) quota.Usage {
	s.t.Helper()
	use, err := s.ProjectUsage(s.t.Context(), chief, project)
	if err != nil {
		s.t.Fatal(err)
	}
	return use.Usage
}

// wantRecount fails the test if the counted use of any VM differs from what the VM uses.
func (s *projectFixture) wantRecount(when string) {
	s.t.Helper()
	var wrong string
	err := s.pool.QueryRow(s.t.Context(), `SELECT COALESCE(string_agg(v.name || ': counted ' || COALESCE(to_jsonb(u)::text, 'nothing') || ', uses ' || to_jsonb(a), E'\n'), '')
		FROM vms v CROSS JOIN LATERAL vm_use_of(v) a LEFT JOIN vm_use u ON u.vm_id = v.id WHERE to_jsonb(u) IS DISTINCT FROM to_jsonb(a)`).Scan(&wrong)
	if err != nil {
		s.t.Fatal(err)
	}
	if wrong != "" {
		s.t.Fatalf("%s: %s", when, wrong)
	}
	if n := s.countRows("vm_use"); n != s.countRows("vms") {
		s.t.Fatalf("%s: %d VMs are counted, and there are %d", when, n, s.countRows("vms"))
	}
}

const gib = 1 << 30

func (s *projectFixture) updateSpec(id fleet.VMID, to fleet.VMSpec) error {
	_, _, err := s.UpdateVM(s.t.Context(), s.member, id, control.UpdateVM{Spec: &to})
	return err
}

// quotaVM returns a VM of project red with two vCPUs, 512 MiB of memory and one disk of 2 GiB.
func (s *projectFixture) quotaVM(name string) control.CreateVM {
	return control.CreateVM{ProjectID: s.red, Name: name, Spec: fleet.VMSpec{
		CPUs: 2, MemoryMiB: 512, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 2 * gib}}, NICs: []fleet.NIC{{Network: "default"}},
	}}
}

func TestRequestsAboveQuotaRefusedAtTheirField(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	first, err := s.CreateVM(ctx, s.member, s.quotaVM("first"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		quota quota.Quota
		field string
		text  string
	}{
		"VMs":          {quota.Quota{VMs: limit(1)}, "projectId", "This project uses 1 of 1 VMs, and one more is asked for."},
		"vCPUs":        {quota.Quota{CPUs: limit(3)}, "spec.cpus", "This project has 1 of 3 vCPUs left, and 2 more are asked for."},
		"memory":       {quota.Quota{MemoryMiB: limit(1000)}, "spec.memoryMiB", "This project has 488 MiB of 1000 MiB of memory left, and 512 MiB more are asked for."},
		"disk space":   {quota.Quota{DiskBytes: limit(3 * gib)}, "spec.disks", "This project has 1 GiB of 3 GiB of disk space left, and 2 GiB more are asked for."},
		"a pool":       {quota.Quota{Pools: map[fleet.PoolID]quota.Limit{s.nfs: limit(2 * gib)}}, "spec.disks", "This project uses 2 GiB of 2 GiB of disk space in this pool, and 2 GiB more are asked for."},
		"NICs":         {quota.Quota{NICs: limit(1)}, "spec.nics", "This project uses 1 of 1 network adapters, and one more is asked for."},
		"running VMs":  {quota.Quota{RunningVMs: limit(0)}, "spec.power", "This project uses 0 of 0 running VMs, and one more is asked for."},
		"a used limit": {quota.Quota{CPUs: limit(1)}, "spec.cpus", "This project uses 2 of 1 vCPUs, and 2 more are asked for."},
	} {
		s.setQuota(s.red, c.quota)
		in := s.quotaVM("more")
		in.Start = c.quota.RunningVMs.Hard != nil
		s.wantRefused(name, fleet.Invalid, c.text, func() error {
			_, err := s.CreateVM(ctx, s.member, in)
			if refused, ok := errors.AsType[*fleet.Error](err); ok && !slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool { return f.Field == c.field && f.Message == c.text }) {
				t.Errorf("%s: %+v, want an error at %s", name, refused.Fields, c.field)
			}
			return err
		})
	}
	// A limit below the present use stops nothing: other changes and a smaller size are possible.
	s.setQuota(s.red, quota.Quota{CPUs: limit(1), MemoryMiB: limit(1), DiskBytes: limit(0)})
	in := s.getVM(first.ID)
	in.Spec.CPUs = 1
	if err := s.updateSpec(first.ID, in.Spec); err != nil {
		t.Errorf("a change to fewer vCPUs above the quota: %v", err)
	}
	if use := s.usage(s.red); use.VMs != 1 || use.CPUs != 1 || use.MemoryMiB != 512 || use.DiskBytes != 2*gib || use.NICs != 1 || use.Pools[s.nfs] != 2*gib || use.RunningVMs != 0 {
		t.Errorf("usage is %+v", use)
	}
	s.wantRecount("at the end")
}

func TestEachWayToUseMoreChecksQuota(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	off, err := s.CreateVM(ctx, s.member, s.quotaVM("off"))
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(off.ID))
	s.reportPower(off.ID, fleet.Stopped)
	s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('target', 'vda', 'path', '/v/x', 'sizeBytes', 2147483648,
		'volume', jsonb_build_object('poolId', spec #>> '{disks,0,poolId}', 'volume', spec #>> '{disks,0,volume}')))) WHERE id = $1`, off.ID)
	running := s.createVM("running", fleet.Running)
	use := s.usage(s.red)
	s.setQuota(s.red, quota.Quota{
		VMs: limit(use.VMs), RunningVMs: limit(use.RunningVMs), CPUs: limit(use.CPUs), MemoryMiB: limit(use.MemoryMiB), DiskBytes: limit(use.DiskBytes), NICs: limit(use.NICs),
		Snapshots: limit(0), Images: limit(0), Exports: limit(0),
	})
	edit := func(change func(*fleet.VMSpec)) func() error {
		return func() error {
			v := s.getVM(off.ID)
			change(&v.Spec)
			return s.updateSpec(off.ID, v.Spec)
		}
	}
	for name, c := range map[string]struct {
		text string
		do   func() error
	}{
		"create": {"of " + strconv.FormatInt(use.VMs, 10) + " VMs", func() error {
			_, err := s.CreateVM(ctx, s.member, control.CreateVM{ProjectID: s.red, Name: "new", Spec: smallSpec})
			return err
		}},
		"clone": {"VMs", func() error {
			_, err := s.CreateVM(ctx, s.member, control.CreateVM{ProjectID: s.red, Name: "copy", From: &control.VMSource{VMID: off.ID}})
			return err
		}},
		"more vCPUs": {"vCPUs", edit(func(v *fleet.VMSpec) { v.CPUs++ })},
		"memory":     {"of memory", edit(func(v *fleet.VMSpec) { v.MemoryMiB += 128 })},
		"a disk":     {"of disk space", edit(func(v *fleet.VMSpec) { v.Disks = append(v.Disks, fleet.Disk{PoolID: s.nfs, SizeBytes: gib}) })},
		"a NIC":      {"network adapters", edit(func(v *fleet.VMSpec) { v.NICs = append(v.NICs, fleet.NIC{Network: "default"}) })},
		"a start": {"running VMs", func() error {
			_, err := s.RequestPowerAction(ctx, s.member, off.ID, fleet.ActStart)
			return err
		}},
		"a snapshot": {"snapshots", func() error {
			_, err := s.TakeSnapshot(ctx, s.member, off.ID, control.NewSnapshot{Name: "before"})
			return err
		}},
	} {
		s.wantRefused(name, fleet.Invalid, "", func() error {
			err := c.do()
			if refused, ok := errors.AsType[*fleet.Error](err); ok && !slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool { return strings.Contains(f.Message, c.text) }) {
				t.Errorf("%s: %+v, want an error with the text %q", name, refused.Fields, c.text)
			}
			return err
		})
	}
	// What a host reports is never refused, and counts.
	s.reportPower(off.ID, fleet.Running)
	if got := s.usage(s.red).RunningVMs; got != use.RunningVMs+1 {
		t.Errorf("%d running VMs after a start outside Quantix, want %d", got, use.RunningVMs+1)
	}
	// A pause and a stop need no quota.
	if _, err := s.RequestPowerAction(ctx, s.member, running.ID, fleet.ActShutdown); err != nil {
		t.Errorf("a shut-down above the quota: %v", err)
	}
	s.wantRecount("at the end")
}

func TestBadQuotasRefused(t *testing.T) {
	s := newProjectFixture(t)
	soft := func(hard, soft int64) quota.Limit { return quota.Limit{Hard: &hard, Soft: &soft} }
	for name, c := range map[string]struct {
		quota quota.Quota
		text  string
	}{
		"negative":          {quota.Quota{VMs: limit(-1)}, "Enter a number from 0"},
		"larger than 2^53":  {quota.Quota{DiskBytes: limit(1<<63 - 1)}, "Enter a number from 0"},
		"soft above hard":   {quota.Quota{CPUs: soft(4, 5)}, "must not exceed the hard limit"},
		"no such pool":      {quota.Quota{Pools: map[fleet.PoolID]quota.Limit{"nowhere": limit(1)}}, "There is no such pool."},
		"a negative pool's": {quota.Quota{Pools: map[fleet.PoolID]quota.Limit{s.nfs: limit(-1)}}, "Enter a number from 0"},
	} {
		s.wantRefused(name, fleet.Invalid, c.text, func() error {
			_, err := s.SetQuota(t.Context(), chief, s.red, c.quota)
			return err
		})
	}
	s.wantRefused("by a member", fleet.Forbidden, "do not have permission", func() error {
		_, err := s.SetQuota(t.Context(), s.member, s.red, quota.Quota{})
		return err
	})
	s.wantRefused("of another project", fleet.NotFound, "no such project", func() error {
		_, err := s.ProjectUsage(t.Context(), s.blueMember, s.red)
		return err
	})
	s.wantRefused("of no project", fleet.NotFound, "no such project", func() error {
		_, err := s.SetQuota(t.Context(), chief, "nowhere", quota.Quota{})
		return err
	})
}

// Fifty members of a project with room for one VM create VMs at once through three portals.
func TestConcurrentCreatesNeverExceedQuota(t *testing.T) {
	s := newProjectFixture(t)
	s.setQuota(s.red, quota.Quota{VMs: limit(1)})
	portals := []*control.Control{s.Control}
	for range 2 {
		pool, err := pgxpool.NewWithConfig(t.Context(), s.pool.Config())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		portals = append(portals, control.New(pool, control.Options{}))
	}
	var created, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			in := s.quotaVM(fmt.Sprintf("vm-%02d", i))
			in.Spec.Disks = nil
			_, err := portals[i%len(portals)].CreateVM(t.Context(), s.member, in)
			switch {
			case err == nil:
				created.Add(1)
			case fleet.CodeOf(err) == fleet.Invalid && strings.Contains(err.Error(), "This project uses 1 of 1 VMs"):
				refused.Add(1)
			default:
				t.Errorf("create %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if created.Load() != 1 || refused.Load() != 49 || s.countRows("vms") != 1 {
		t.Errorf("%d created, %d refused, %d VMs", created.Load(), refused.Load(), s.countRows("vms"))
	}
	s.wantRecount("at the end")
}

// A recount corrects rows that are wrong or missing.
func TestRecountCorrectsUse(t *testing.T) {
	s := newProjectFixture(t)
	for i := range 3 {
		if _, err := s.CreateVM(t.Context(), s.member, s.quotaVM(fmt.Sprintf("vm-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	before := s.usage(s.red)
	s.execSQL(`UPDATE vm_use SET cpus = 99 WHERE vm_id = (SELECT min(vm_id) FROM vm_use)`)
	s.execSQL(`DELETE FROM vm_use WHERE vm_id = (SELECT max(vm_id) FROM vm_use)`)
	if err := s.RecountUse(context.Background(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.wantRecount("after the recount")
	if after := s.usage(s.red); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("usage is %+v, want %+v", after, before)
	}
}

// An adoption above the quota is refused with the request. A quota that is lowered later does not refuse the host's
// result, because the VM is there.
func TestAdoptionChecksQuotaWithItsRequest(t *testing.T) {
	s := newAdoptionFixture(t)
	id := s.addDiscoveredVM(legacyStatus)
	s.setQuota(s.red, quota.Quota{CPUs: limit(1)})
	s.wantRefused("above the quota", fleet.Conflict, "This project has 1 of 1 vCPUs left, and 2 more are asked for.", func() error {
		_, err := s.AdoptVM(t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red})
		return err
	})
	s.setQuota(s.red, quota.Quota{})
	task := s.adopt(id)
	w := s.claim(fleet.DiscoveredAdopt)
	s.setQuota(s.red, quota.Quota{CPUs: limit(1), VMs: limit(0)})
	s.finish(w, wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}})
	s.wantTaskState(task.ID, fleet.JobRunning, "")
	if use := s.usage(s.red); use.VMs != 1 || use.CPUs != 2 {
		t.Errorf("usage is %+v", use)
	}
	s.wantRecount("after the adoption")
}
