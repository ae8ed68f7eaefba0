package control_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"quantix/internal/bin"
	"quantix/internal/control"
	"quantix/internal/control/recycling"
	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// quotaActs makes random requests about the VMs of project red, and random reports of their host.
type quotaActs struct {
	*projectFixture
	random  *rand.Rand
	n       int
	checked int // acts under an unchanged quota
}

func (s *quotaActs) anyVM() (id fleet.VMID, ok bool) {
	err := s.pool.QueryRow(s.t.Context(), `SELECT id FROM vms ORDER BY md5(id || $1::text) LIMIT 1`, strconv.FormatInt(s.random.Int64(), 10)).Scan(&id)
	return id, err == nil
}

// context returns a context that ends in the middle of one in five requests, as a killed portal's connections do.
func (s *quotaActs) context() (context.Context, context.CancelFunc) {
	if s.random.IntN(5) > 0 {
		return s.t.Context(), func() {}
	}
	return context.WithTimeout(s.t.Context(), time.Duration(s.random.IntN(8000))*time.Microsecond)
}

func (s *quotaActs) spec() fleet.VMSpec {
	out := fleet.VMSpec{CPUs: 1 + s.random.IntN(4), MemoryMiB: 64 << s.random.IntN(3), NICs: []fleet.NIC{}, Disks: []fleet.Disk{}}
	for range s.random.IntN(3) {
		out.NICs = append(out.NICs, fleet.NIC{Network: "default"})
	}
	for range s.random.IntN(3) {
		out.Disks = append(out.Disks, fleet.Disk{PoolID: []fleet.PoolID{s.nfs, s.local}[s.random.IntN(2)], SizeBytes: int64(1+s.random.IntN(4)) * gib})
	}
	return out
}

// act makes one random act. Refusals are as good as successes.
func (s *quotaActs) act() {
	ctx, cancel := s.context()
	defer cancel()
	s.n++
	id, any := s.anyVM()
	subject := fleet.SubjectVM(id)
	switch kind := s.random.IntN(15); {
	case kind < 3 || !any:
		_, _ = s.CreateVM(ctx, s.member, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: fmt.Sprintf("vm-%d", s.n), Spec: s.spec(), Start: s.random.IntN(2) == 0})
	case kind == 3:
		v, err := s.GetVM(s.t.Context(), chief, id)
		if err != nil {
			return // in the recycle bin
		}
		v.Spec.CPUs, v.Spec.MemoryMiB = 1+s.random.IntN(6), 64<<s.random.IntN(4)
		if s.random.IntN(2) == 0 {
			v.Spec.NICs = append(v.Spec.NICs, fleet.NIC{Network: "default"})
		}
		_, _, _ = s.UpdateVM(ctx, s.member, id, control.UpdateVM{Spec: &v.Spec})
	case kind == 4:
		_, _ = s.RequestPowerAction(ctx, s.member, id, []fleet.Action{fleet.ActStart, fleet.ActStop, fleet.ActPause, fleet.ActResume}[s.random.IntN(4)])
	case kind == 5:
		v, _ := s.GetVM(s.t.Context(), chief, id)
		_, _ = s.DeleteVM(ctx, s.member, id, true, v.Name)
	case kind == 12:
		_, _ = s.RestoreRecycled(ctx, s.member, id, recycling.RestoreVM{})
	case kind == 13:
		var name string
		_ = s.pool.QueryRow(s.t.Context(), `SELECT name FROM vms WHERE id = $1`, id).Scan(&name)
		_, _ = s.PurgeRecycled(ctx, s.member, id, name)
	case kind == 14:
		_ = s.SetFleetBin(ctx, chief, bin.Settings{Days: s.random.IntN(4) * 3, Counted: s.random.IntN(2) == 0})
	case kind == 6:
		_, _ = s.TakeSnapshot(ctx, s.member, id, control.NewSnapshot{Name: fmt.Sprintf("before-%d", s.n)})
	case kind == 7: // the host's agent ends all jobs of the VM, and a deletion removes it
		state := []string{"done", "failed", "cancelled"}[s.random.IntN(3)]
		s.execSQL(`UPDATE jobs SET state = $2, epoch = epoch + 1, ended_at = now() WHERE subject = $1 AND state IN ('queued', 'running')`, subject, state)
		s.execSQL(`DELETE FROM vms v WHERE v.id = $1 AND v.deleted_at IS NOT NULL AND (v.recycled_at IS NULL OR EXISTS (
			SELECT FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.delete' AND j.state = 'done'))`, id)
	case kind == 8:
		s.reportPower(id, []fleet.Power{fleet.Running, fleet.Stopped, fleet.Paused, fleet.Crashed}[s.random.IntN(4)])
	case kind == 9: // snapshots and sizes, with values that no honest host reports
		s.execSQL(`UPDATE vms SET observed_generation = generation, status = COALESCE(status, '{"power": "stopped"}') || jsonb_build_object('snapshots', jsonb_build_object('snapshots', (
				SELECT jsonb_agg(jsonb_build_object('id', g::text, 'bytes', $2::bigint * g, 'deleted', g % 3 = 0)) FROM generate_series(1, $3::int) g)),
			'disks', jsonb_build_array(jsonb_build_object('sizeBytes', $2::bigint, 'volume', jsonb_build_object('poolId', spec #>> '{disks,0,poolId}', 'volume', spec #>> '{disks,0,volume}'))))
			WHERE id = $1`, id, []int64{-5, 0, 1 << 20, 1 << 61}[s.random.IntN(4)], s.random.IntN(4))
	case kind == 10: // a disk of the image's size, as in a spec without a size
		s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,sizeBytes}', '0') WHERE id = $1 AND spec #> '{disks,0}' IS NOT NULL
			AND NOT EXISTS (SELECT FROM project_quotas)`, id)
	default:
		hard := int64(s.random.IntN(40))
		limits := quota.Quota{CPUs: quota.Limit{Hard: &hard}, VMs: quota.Limit{Hard: &hard}, RunningVMs: quota.Limit{Hard: &hard}}
		if s.random.IntN(4) == 0 {
			limits = quota.Quota{}
		}
		_, _ = s.SetQuota(ctx, chief, s.red, limits)
	}
}

// checkGrowth fails the test if a request made the project use more than the limits allow.
func (s *quotaActs) checkGrowth(before, after quota.ProjectUsage) {
	s.t.Helper()
	if before.Quota.CPUs.Hard == nil || after.Quota.CPUs.Hard == nil || *before.Quota.CPUs.Hard != *after.Quota.CPUs.Hard {
		return
	}
	s.checked++
	for _, r := range quota.Resources {
		l := r.Limit(&after.Quota)
		reported := r.Key == "runningVms" // a host may report that a VM runs
		if l.Hard != nil && !reported && r.Used(after.Usage) > r.Used(before.Usage) && r.Used(after.Usage) > *l.Hard {
			s.t.Errorf("act %d: %s grew from %d to %d above the limit %d", s.n, r.Label, r.Used(before.Usage), r.Used(after.Usage), *l.Hard)
		}
	}
}

// After any sequence of requests, failures, killed portals and reports, the counted use is what the VMs use, and no
// request has exceeded the quota.
func TestUsageEqualsRecountAfterRandomActs(t *testing.T) {
	s := &quotaActs{projectFixture: newProjectFixture(t), random: rand.New(rand.NewPCG(31, 1))}
	before, err := s.ProjectUsage(t.Context(), chief, s.red)
	for range randomQuotaActs {
		if err != nil {
			t.Fatal(err)
		}
		s.act()
		after, readErr := s.ProjectUsage(t.Context(), chief, s.red)
		s.checkGrowth(before, after)
		before, err = after, readErr
		if s.n%50 == 0 {
			s.wantRecount(fmt.Sprintf("after act %d", s.n))
		}
		if t.Failed() {
			return
		}
	}
	s.wantRecount("at the end")
	if s.checked < randomQuotaActs/4 {
		t.Errorf("only %d of %d acts were made under a quota", s.checked, s.n)
	}
}
