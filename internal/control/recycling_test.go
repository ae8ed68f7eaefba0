package control_test

import (
	"strings"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/bin"
	"quantix/internal/control"
	"quantix/internal/control/recycling"
	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// binFixture is a projectFixture whose recycle bin keeps VMs for 7 days.
type binFixture struct{ *projectFixture }

func newBinFixture(t *testing.T) *binFixture {
	t.Helper()
	s := &binFixture{newProjectFixture(t)}
	s.setBin(bin.Settings{Days: 7, Counted: true})
	return s
}

func (s *binFixture) setBin(to bin.Settings) {
	s.t.Helper()
	if err := s.SetFleetBin(s.t.Context(), chief, to); err != nil {
		s.t.Fatal(err)
	}
}

// createdVM returns a VM of project red that its host has created, and that is off.
func (s *binFixture) createdVM(name string) fleet.VMView {
	s.t.Helper()
	spec := fleet.VMSpec{CPUs: 2, MemoryMiB: 128, NICs: []fleet.NIC{}, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 3 * gib}}}
	vm, err := s.CreateVM(s.t.Context(), s.member, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = epoch + 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(vm.ID))
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power": "stopped"}' WHERE id = $1`, vm.ID)
	return s.getVM(vm.ID)
}

// recycled returns a VM of createdVM that is in the recycle bin and off.
func (s *binFixture) recycled(name string) fleet.VMView {
	s.t.Helper()
	vm := s.createdVM(name)
	task, err := s.DeleteVM(s.t.Context(), s.member, vm.ID, true, "")
	if err != nil || task.Kind != fleet.VMRecycle {
		s.t.Fatalf("the deletion: task %+v, error %v", task, err)
	}
	s.endJobs(vm.ID)
	return vm
}

// endJobs ends the VM's jobs, as its host does.
func (s *binFixture) endJobs(id fleet.VMID) {
	s.t.Helper()
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = epoch + 1, ended_at = now() WHERE subject = $1 AND state IN ('queued', 'running')`, fleet.SubjectVM(id))
	s.execSQL(`UPDATE vms SET observed_generation = generation WHERE id = $1`, id)
}

func (s *binFixture) items(a fleet.Actor) []bin.Item {
	s.t.Helper()
	page, err := s.ListRecycleBin(s.t.Context(), a, fleet.Query{})
	if err != nil {
		s.t.Fatal(err)
	}
	return page.Items
}

func TestDeletedVMGoesIntoRecycleBin(t *testing.T) {
	s := newBinFixture(t)
	vm := s.createdVM("web")
	if _, err := s.DeleteVM(t.Context(), s.member, vm.ID, true, ""); err != nil {
		t.Fatal(err)
	}
	items := s.items(s.member)
	if len(items) != 1 || items[0].Name != "web" || items[0].SizeBytes != 3*gib || items[0].DeletedBy != s.member.Name || items[0].State != bin.Stopping {
		t.Fatalf("the recycle bin has %+v", items)
	}
	if left := time.Until(items[0].PurgeAt); left < 6*24*time.Hour || left > 8*24*time.Hour {
		t.Errorf("it is purged in %v, want 7 days", left)
	}
	if items[0].HostName != "" || items[0].HostID != "" {
		t.Errorf("a member sees the host %q", items[0].HostName)
	}
	if got := s.items(s.blueMember); len(got) != 0 {
		t.Errorf("a member of another project sees %+v", got)
	}
	page, err := s.ListVMs(t.Context(), chief, fleet.Query{})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("the list of VMs has %d VMs, error %v", len(page.Items), err)
	}
	hits, err := s.Search(t.Context(), chief, "web", 8)
	if err != nil || len(hits) != 0 {
		t.Errorf("the search finds %+v, error %v", hits, err)
	}
	s.wantRefused("get", fleet.NotFound, "no such VM", func() error { _, err := s.GetVM(t.Context(), chief, vm.ID); return err })
	const restoreFirst = "The VM is in the recycle bin. Restore it first."
	s.wantRefused("start", fleet.Conflict, restoreFirst, func() error {
		_, err := s.RequestPowerAction(t.Context(), s.member, vm.ID, fleet.ActStart)
		return err
	})
	s.wantRefused("edit", fleet.Conflict, restoreFirst, func() error {
		_, _, err := s.UpdateVM(t.Context(), s.member, vm.ID, control.UpdateVM{Name: new("other")})
		return err
	})
	s.wantRefused("delete again", fleet.Conflict, restoreFirst, func() error {
		_, err := s.DeleteVM(t.Context(), s.member, vm.ID, true, "web")
		return err
	})
}

func TestRestoredVMHasItsDisksAndAddresses(t *testing.T) {
	s := newBinFixture(t)
	was := s.recycled("web")
	if _, err := s.RestoreRecycled(t.Context(), s.member, was.ID, recycling.RestoreVM{}); err != nil {
		t.Fatal(err)
	}
	vm := s.getVM(was.ID)
	if vm.Name != "web" || vm.DeletedAt != nil || vm.Spec.Disks[0] != was.Spec.Disks[0] || vm.Spec.Power != fleet.Stopped {
		t.Errorf("the restored VM is %+v", vm)
	}
	if len(s.items(chief)) != 0 {
		t.Error("the restored VM is in the recycle bin")
	}
	if n := queryValue[int](&hostFixture{t: t, pool: s.pool}, `SELECT count(*) FROM jobs WHERE subject = $1 AND kind = 'vm.apply' AND state = 'queued'`, fleet.SubjectVM(was.ID)); n != 1 {
		t.Errorf("%d jobs apply the restored VM's spec, want 1", n)
	}
}

func TestNameOfRecycledVMIsFree(t *testing.T) {
	s := newBinFixture(t)
	old := s.recycled("web")
	s.createdVM("web")
	s.wantRefused("restore under a taken name", fleet.Conflict, `A VM named "web" exists`, func() error {
		_, err := s.RestoreRecycled(t.Context(), s.member, old.ID, recycling.RestoreVM{})
		return err
	})
	if _, err := s.RestoreRecycled(t.Context(), s.member, old.ID, recycling.RestoreVM{Name: "web-old"}); err != nil {
		t.Fatal(err)
	}
	if got := s.getVM(old.ID).Name; got != "web-old" {
		t.Errorf("the restored VM is named %q", got)
	}
}

func TestQuotaCountsDisksInRecycleBin(t *testing.T) {
	s := newBinFixture(t)
	vm := s.createdVM("web")
	use := func(what string, want quota.Usage) {
		t.Helper()
		got, err := s.ProjectUsage(t.Context(), chief, s.red)
		if err != nil {
			t.Fatal(err)
		}
		if g := got.Usage; g.VMs != want.VMs || g.CPUs != want.CPUs || g.DiskBytes != want.DiskBytes || g.MemoryMiB != want.MemoryMiB {
			t.Errorf("%s: the use is %+v, want %+v", what, g, want)
		}
	}
	all := quota.Usage{VMs: 1, CPUs: 2, MemoryMiB: 128, DiskBytes: 3 * gib}
	use("before", all)
	if _, err := s.DeleteVM(t.Context(), s.member, vm.ID, true, ""); err != nil {
		t.Fatal(err)
	}
	use("in the bin", quota.Usage{DiskBytes: 3 * gib})
	s.setBin(bin.Settings{Days: 7})
	use("not counted", quota.Usage{})
	s.wantRecount("in the bin")
	two := int64(1)
	if _, err := s.SetQuota(t.Context(), chief, s.red, quota.Quota{CPUs: quota.Limit{Hard: &two}}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("restore over quota", fleet.Invalid, "This project has 1 of 1 vCPUs left, and 2 more are asked for.", func() error {
		_, err := s.RestoreRecycled(t.Context(), s.member, vm.ID, recycling.RestoreVM{})
		return err
	})
	if _, err := s.SetQuota(t.Context(), chief, s.red, quota.Quota{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RestoreRecycled(t.Context(), s.member, vm.ID, recycling.RestoreVM{}); err != nil {
		t.Fatal(err)
	}
	use("restored", all)
}

func TestPurgeRefusedWhileGuestRuns(t *testing.T) {
	s := newBinFixture(t)
	vm := s.recycled("web")
	s.wantRefused("name not typed", fleet.Invalid, "Type the VM's name, web", func() error {
		_, err := s.PurgeRecycled(t.Context(), s.member, vm.ID, "wbe")
		return err
	})
	s.execSQL(`UPDATE vms SET status = '{"power": "running"}', purge_at = now() - interval '1 hour' WHERE id = $1`, vm.ID)
	s.wantRefused("started on the host", fleet.Conflict, "The VM runs on its host.", func() error {
		_, err := s.PurgeRecycled(t.Context(), s.member, vm.ID, "web")
		return err
	})
	if err := s.PurgeOverdueVMs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if got := s.items(chief); len(got) != 1 || got[0].State != bin.Running {
		t.Errorf("after the pass, the recycle bin has %+v", got)
	}
}

// One VM that cannot be purged does not stop the others, and a failed purge leaves its VM in the recycle bin.
func TestOverdueVMsArePurged(t *testing.T) {
	s := newBinFixture(t)
	running, overdue, young := s.recycled("running"), s.recycled("overdue"), s.recycled("young")
	s.execSQL(`UPDATE vms SET purge_at = now() - interval '1 hour' WHERE id = ANY ($1)`, []string{string(running.ID), string(overdue.ID)})
	s.execSQL(`UPDATE vms SET status = '{"power": "running"}' WHERE id = $1`, running.ID)
	if err := s.PurgeOverdueVMs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	states := map[fleet.VMID]bin.State{}
	for _, i := range s.items(chief) {
		states[i.ID] = i.State
	}
	if states[running.ID] != bin.Running || states[overdue.ID] != bin.Purging || states[young.ID] != bin.Waiting {
		t.Errorf("the states are %v", states)
	}
	s.wantRefused("restore while purging", fleet.Conflict, "being purged", func() error {
		_, err := s.RestoreRecycled(t.Context(), s.member, overdue.ID, recycling.RestoreVM{})
		return err
	})
	var args fleet.JobArgs
	if err := s.pool.QueryRow(t.Context(), `SELECT args FROM jobs WHERE subject = $1 AND kind = 'vm.delete'`, fleet.SubjectVM(overdue.ID)).Scan(&args); err != nil {
		t.Fatal(err)
	}
	if !args.DeleteDisks || !args.OnlyIfOff {
		t.Errorf("the purge has the parameters %+v", args)
	}
}

func TestRestoreRefusedWhenPoolIsGone(t *testing.T) {
	s := newBinFixture(t)
	vm := s.recycled("web")
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h1)
	s.wantRefused("restore", fleet.Invalid, "Assign the pool to the host again, or purge the VM.", func() error {
		_, err := s.RestoreRecycled(t.Context(), chief, vm.ID, recycling.RestoreVM{})
		return err
	})
}

func TestRecycledVMUsesItsPoolHostAndProject(t *testing.T) {
	s := newBinFixture(t)
	s.recycled("web")
	for what, refused := range map[string]func() error{
		"pool":    func() error { _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectPool(s.nfs)); return err },
		"host":    func() error { return s.DeleteHost(t.Context(), chief, s.h1) },
		"project": func() error { return s.DeleteProject(t.Context(), chief, s.red) },
	} {
		if err := refused(); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "recycle bin") {
			t.Errorf("deletion of the %s: %v", what, err)
		}
	}
}

func TestDeletionWithoutRecycleBin(t *testing.T) {
	s := newBinFixture(t)
	permanent := s.createdVM("permanent")
	s.wantRefused("name not typed", fleet.Invalid, "Type the VM's name", func() error {
		_, err := s.DeleteVMPermanently(t.Context(), s.member, permanent.ID, "")
		return err
	})
	if task, err := s.DeleteVMPermanently(t.Context(), s.member, permanent.ID, "permanent"); err != nil || task.Kind != fleet.VMDelete {
		t.Errorf("permanent deletion: task %+v, error %v", task, err)
	}
	if _, err := s.SetProjectBin(t.Context(), chief, s.red, bin.Overrides{Days: new(0)}); err != nil {
		t.Fatal(err)
	}
	off := s.createdVM("off")
	if task, err := s.DeleteVM(t.Context(), s.member, off.ID, true, "off"); err != nil || task.Kind != fleet.VMDelete {
		t.Errorf("deletion while the project's bin is off: task %+v, error %v", task, err)
	}
	if got := s.items(chief); len(got) != 0 {
		t.Errorf("the recycle bin has %+v", got)
	}
}

// A restore that waits for the transaction of a purge sees the purge's job.
func TestRestoreRefusedAfterConcurrentPurge(t *testing.T) {
	s := newBinFixture(t)
	vm := s.recycled("web")
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SELECT id FROM vms WHERE id = $1 FOR UPDATE`, vm.ID)
	done := make(chan error, 1)
	go func() {
		_, err := s.RestoreRecycled(t.Context(), s.member, vm.ID, recycling.RestoreVM{})
		done <- err
	}()
	(&hostFixture{t: t, pool: s.pool}).waitForLock()
	exec(`WITH k AS (INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, created_by)
	          VALUES ('purge', $2, $3, 'vm.delete', $1, 'web', 3, 'system'))
	      INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation)
	      VALUES ('purge', 'purge', $2, 'vm.delete', $1, '{"deleteDisks": true, "onlyIfOff": true}', 3)`, fleet.SubjectVM(vm.ID), s.h1, s.red)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "being purged") {
		t.Errorf("the restore: %v", err)
	}
}

// sightOn makes the host report a guest with the VM's UUID.
func (s *binFixture) sightOn(host fleet.HostID, id fleet.VMID) {
	s.t.Helper()
	s.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) VALUES ($1, $2, 'running', 1, true)`, id, host)
}

func TestPurgeRefusedWhileGuestRunsOnOtherHost(t *testing.T) {
	s := newBinFixture(t)
	vm := s.recycled("web")
	s.sightOn(s.h2, vm.ID)
	s.execSQL(`UPDATE vms SET purge_at = now() - interval '1 hour' WHERE id = $1`, vm.ID)
	check := func(what string) {
		t.Helper()
		for _, by := range []struct {
			a    fleet.Actor
			host string
		}{{chief, "h2"}, {s.member, "Another host"}} {
			why := "The VM's disks cannot be deleted now: " + by.host + " reports a guest with this UUID, running. That guest may write to the disks."
			s.wantRefused(what, fleet.Conflict, why, func() error {
				_, err := s.PurgeRecycled(t.Context(), by.a, vm.ID, "web")
				return err
			})
			if got := s.items(by.a); len(got) != 1 || got[0].State != bin.Running || got[0].PurgeRefusal() != why {
				t.Errorf("%s: the recycle bin has %+v", what, got)
			}
		}
		all, err := s.PurgeAllRecycled(t.Context(), chief, []fleet.VMID{vm.ID})
		if err != nil || fleet.CodeOf(all[0].Error) != fleet.Conflict {
			t.Errorf("%s: the purge of several VMs returns %+v, error %v", what, all, err)
		}
		ids, err := db.New(s.pool).VMsToPurge(t.Context(), 10)
		if err != nil || len(ids) != 0 {
			t.Errorf("%s: the pass purges %v, error %v", what, ids, err)
		}
	}
	check("online")
	s.execSQL(`UPDATE host_sessions SET last_look = now() - interval '1 day' WHERE host_id = $1`, s.h2)
	check("offline")
	s.execSQL(`UPDATE vm_sightings SET settled = true WHERE vm_id = $1`, vm.ID)
	if task, err := s.PurgeRecycled(t.Context(), s.member, vm.ID, "web"); err != nil || task.Kind != fleet.VMDelete {
		t.Errorf("the purge after a user ruled the offline host out: task %+v, error %v", task, err)
	}
}

func TestFailedRecycleIsRepeated(t *testing.T) {
	s := newBinFixture(t)
	vm := s.createdVM("web")
	s.execSQL(`UPDATE vms SET status = '{"power": "running"}' WHERE id = $1`, vm.ID)
	if _, err := s.DeleteVM(t.Context(), s.member, vm.ID, true, ""); err != nil {
		t.Fatal(err)
	}
	queued := func(what string, want int) {
		t.Helper()
		if err := s.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		if n := s.countRows(`jobs WHERE kind = 'vm.recycle' AND state = 'queued'`); n != want {
			t.Errorf("%s: %d jobs power the VM off, want %d", what, n, want)
		}
	}
	end := func(state, text string) {
		t.Helper()
		s.execSQL(`UPDATE jobs SET state = $2, error = $3, epoch = epoch + 1, ended_at = now() WHERE subject = $1 AND state = 'queued'`, fleet.SubjectVM(vm.ID), state, text)
		s.execSQL(`UPDATE vms SET observed_generation = generation WHERE id = $1`, vm.ID)
	}
	later := func() {
		t.Helper()
		s.execSQL(`UPDATE tasks SET ended_at = ended_at - interval '11 minutes' WHERE subject = $1 AND kind = 'vm.recycle'`, fleet.SubjectVM(vm.ID))
	}
	end("failed", "libvirt does not answer")
	if i := s.items(chief)[0]; i.State != bin.Running || i.Error != "libvirt does not answer" || i.PurgeRefusal() != "The VM runs on its host. Shut its guest down there, or restore the VM." {
		t.Errorf("the item of the VM that could not be powered off: %+v", i)
	}
	queued("just failed", 0)
	later()
	queued("10 minutes later", 1)
	queued("while the job is queued", 1)
	end("done", "")
	later()
	queued("started by somebody after a successful attempt", 0)
}

func TestRestoreHidesNameOfUnpublishedPool(t *testing.T) {
	s := newBinFixture(t)
	vm := s.recycled("web")
	s.execSQL(`UPDATE assignments SET status = '{"state": "failed"}' WHERE pool_id = $1`, s.nfs)
	name := queryWithArgs[string](s.projectFixture, `SELECT name FROM pools WHERE id = $1`, s.nfs)
	restore := func(a fleet.Actor, want string) {
		t.Helper()
		s.wantRefused("restore", fleet.Invalid, want+" with disks of the VM is not active on", func() error {
			_, err := s.RestoreRecycled(t.Context(), a, vm.ID, recycling.RestoreVM{})
			return err
		})
	}
	s.execSQL(`DELETE FROM pool_grants WHERE pool_id = $1`, s.nfs)
	restore(s.member, "A pool")
	restore(chief, "The pool "+name)
	s.execSQL(`INSERT INTO pool_grants (pool_id, project_id, granted_by) VALUES ($1, $2, 'chief')`, s.nfs, s.red)
	restore(s.member, "The pool "+name)
}
