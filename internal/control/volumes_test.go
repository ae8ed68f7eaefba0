package control_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// unusedVolume returns an unused volume of the shared pool, reported by both hosts.
func (s *projectFixture) unusedVolume(name string) storage.VolumeID {
	s.t.Helper()
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.nfs, h, fmt.Sprintf(`{"name":%q,"path":"/v/%s","format":"raw","capacityBytes":1048576,"allocBytes":4096}`, name, name))
	}
	return storage.VolumeID{PoolID: s.nfs, Volume: name}
}

func (s *projectFixture) volumeOn(of storage.VolumeID) query.VolumeOn {
	s.t.Helper()
	v, err := s.VolumeOn(s.t.Context(), chief, of)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// volumeRequests returns a request for each operation on an existing volume.
func (s *projectFixture) volumeRequests(of storage.VolumeID) map[fleet.Action]func() error {
	ctx := s.t.Context()
	return map[fleet.Action]func() error{
		fleet.ActGrow:   func() error { _, err := s.GrowVolume(ctx, chief, of, 1<<30, false); return err },
		fleet.ActClone:  func() error { _, err := s.CloneVolume(ctx, chief, of, "copy.raw", false); return err },
		fleet.ActRename: func() error { _, err := s.RenameVolume(ctx, chief, of, "renamed.raw"); return err },
		fleet.ActWipe:   func() error { _, err := s.WipeVolume(ctx, chief, of, of.Volume); return err },
		fleet.ActDelete: func() error { _, err := s.DeleteVolume(ctx, chief, of, of.Volume); return err },
	}
}

var destructiveActions = []fleet.Action{fleet.ActGrow, fleet.ActRename, fleet.ActWipe, fleet.ActDelete}

func TestVolumeOperationsQueueJobs(t *testing.T) {
	s := newProjectFixture(t)
	in := storage.NewVolume{Name: "data.raw", Format: "raw", SizeBytes: 1 << 30}
	task, err := s.CreateVolume(t.Context(), chief, s.nfs, in)
	if err != nil || task.Kind != fleet.VolumeCreate || task.HostName == "" || task.SubjectName != "data.raw" {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("volume.create")
	s.wantRefused("the same name again", fleet.Invalid, "is being made", func() error { _, err := s.CreateVolume(t.Context(), chief, s.nfs, in); return err })
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Errorf("cancel what waits: %v", err)
	}

	local := in
	s.wantRefused("a local pool without its host", fleet.Invalid, "Choose the host", func() error { _, err := s.CreateVolume(t.Context(), chief, s.local, local); return err })
	local.HostID = s.h2
	s.wantRefused("a host without the pool", fleet.Invalid, "not assigned to h2", func() error { _, err := s.CreateVolume(t.Context(), chief, s.local, local); return err })
	local.HostID = s.h1
	if task, err := s.CreateVolume(t.Context(), chief, s.local, local); err != nil || task.HostID != s.h1 {
		t.Errorf("%+v %v", task, err)
	}
	for name, c := range map[string]struct {
		in   func(*storage.NewVolume)
		says string
	}{
		"a path":      {func(n *storage.NewVolume) { n.Name = "../up" }, "letters, digits"},
		"the marker":  {func(n *storage.NewVolume) { n.Name = ".quantix-pool" }, "letters, digits"},
		"half made":   {func(n *storage.NewVolume) { n.Name = "x.partial" }, "are reserved for incomplete volumes."},
		"a VM's disk": {func(n *storage.NewVolume) { n.Name = "web-0123456789ab-1.qcow2" }, "disks of VMs"},
		"taken":       {func(n *storage.NewVolume) { n.Name = "debian.qcow2" }, "Choose another name"},
		"a format":    {func(n *storage.NewVolume) { n.Name, n.Format = "other", "vmdk" }, "qcow2 or raw"},
		"no size":     {func(n *storage.NewVolume) { n.SizeBytes = 0 }, "above 0"},
		"too large":   {func(n *storage.NewVolume) { n.SizeBytes = fleet.MaxDiskBytes + 1 }, "64 TiB"},
		"no room":     {func(n *storage.NewVolume) { n.SizeBytes = 950 << 30 }, "2 fields"},
	} {
		wrong := in
		wrong.Name = "other.raw"
		c.in(&wrong)
		s.wantRefused(name, fleet.Invalid, c.says, func() error { _, err := s.CreateVolume(t.Context(), chief, s.nfs, wrong); return err })
	}

	// Space is reserved for volumes whose jobs have not ended.
	for n := range 2 {
		most := storage.NewVolume{Name: fmt.Sprintf("most-%d.raw", n), Format: "raw", SizeBytes: 600 << 30}
		ask := func() error { _, err := s.CreateVolume(t.Context(), chief, s.nfs, most); return err }
		if n == 0 {
			if err := ask(); err != nil {
				t.Error(err)
			}
			continue
		}
		// The error names two fields: the size and overcommit.
		s.wantRefused("space that is reserved already", fleet.Invalid, "2 fields", ask)
		most.Overcommit = true
		if err := ask(); err != nil {
			t.Errorf("by somebody who says so: %v", err)
		}
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 minute'`)
	s.wantRefused("no host is online", fleet.Conflict, "No host can do this now", func() error {
		in.Name = "late.raw"
		_, err := s.CreateVolume(t.Context(), chief, s.nfs, in)
		return err
	})
}

func TestVolumeInUseCannotBeChanged(t *testing.T) {
	s := newProjectFixture(t)
	vm := s.createVM("web", fleet.Stopped)
	for name, c := range map[string]struct {
		make  func(of storage.VolumeID)
		says  string
		clone string // why the volume cannot be cloned
	}{
		"disk": {func(of storage.VolumeID) {
			s.setSpecField(vm.ID, "disks", `[{"poolId":"`+string(of.PoolID)+`","volume":"`+of.Volume+`"}]`)
		}, "VM web", ""},
		"drive": {func(of storage.VolumeID) {
			s.setSpecField(vm.ID, "iso", `{"poolId":"`+string(of.PoolID)+`","volume":"`+of.Volume+`"}`)
		}, "VM web", ""},
		"made-from": {func(of storage.VolumeID) {
			s.setSpecField(vm.ID, "disks", `[{"poolId":"`+string(of.PoolID)+`","volume":"new.qcow2","image":{"poolId":"`+string(of.PoolID)+`","volume":"`+of.Volume+`"}}]`)
			s.execSQL(`UPDATE vms SET generation = 2 WHERE id = $1`, vm.ID)
		}, "is being created from the volume.", ""},
		"published": {func(of storage.VolumeID) {
			if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: of.PoolID, Volume: of.Volume}); err != nil {
				t.Fatal(err)
			}
		}, "published", ""},
		"found-on-another-host": {func(of storage.VolumeID) {
			s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, '11111111-1111-4111-8111-111111111111', 'theirs', '{"power":"running"}')`, s.h2)
			s.setReportedVolumeFields(of, s.h2, `{"usedBy":["11111111-1111-4111-8111-111111111111"]}`)
		}, "theirs", "uses the volume, so a copy would be inconsistent."},
		"in-a-drive-of-another-host": {func(of storage.VolumeID) {
			s.setReportedVolumeFields(of, s.h2, `{"inDrive":["22222222-2222-4222-8222-222222222222"]}`)
		}, "22222222", ""},
		"base": {func(of storage.VolumeID) { s.setReportedVolumeFields(of, s.h1, `{"baseOf":["top.qcow2"]}`) }, "top.qcow2", ""},
	} {
		of := s.unusedVolume(name + ".raw")
		if v := s.volumeOn(of); !v.Orphan || len(v.Hosts) != 2 {
			t.Errorf("%s: nobody uses it, yet it is %+v", name, v)
		}
		c.make(of)
		if v := s.volumeOn(of); v.Orphan && name != "made-from" {
			t.Errorf("%s gets to be an orphan", name)
		}
		asking := s.volumeRequests(of)
		for _, act := range destructiveActions {
			s.wantRefused(name+": "+string(act), fleet.Conflict, c.says, asking[act])
		}
		if c.clone != "" {
			s.wantRefused(name+": clone", fleet.Conflict, c.clone, asking[fleet.ActClone])
		}
		s.setSpecField(vm.ID, "disks", `[]`)
		s.execSQL(`UPDATE vms SET spec = spec - 'iso', generation = 1, observed_generation = 1 WHERE id = $1`, vm.ID)
	}
}

// setSpecField writes one field of a VM's spec to the database.
func (s *projectFixture) setSpecField(id fleet.VMID, part, value string) {
	s.t.Helper()
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, ARRAY[$2], $3::jsonb) WHERE id = $1`, id, part, value)
}

// setReportedVolumeFields adds the JSON properties in more to a volume in the host's report.
func (s *projectFixture) setReportedVolumeFields(of storage.VolumeID, host fleet.HostID, more string) {
	s.t.Helper()
	s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', (SELECT jsonb_agg(CASE WHEN v->>'name' = $3 THEN v || $4::jsonb ELSE v END) FROM jsonb_array_elements(status->'volumes') v))
		WHERE pool_id = $1 AND host_id = $2`, of.PoolID, host, of.Volume, more)
}

// Only one of several concurrent requests for a volume succeeds. Further requests for the volume or for its source
// volume are refused until the job ends.
func TestSecondJobOnVolumeRefused(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("data.raw")
	var wait sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		for _, act := range []fleet.Action{fleet.ActGrow, fleet.ActDelete} {
			wait.Go(func() { errs <- s.volumeRequests(of)[act]() })
		}
	}
	wait.Wait()
	close(errs)
	taken := 0
	for err := range errs {
		if err == nil {
			taken++
		} else if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "Another task for the volume has not ended:") {
			t.Error(err)
		}
	}
	if taken != 1 || s.countRows("jobs WHERE kind LIKE 'volume.%'") != 1 {
		t.Errorf("%d orders were taken, %d jobs wait", taken, s.countRows("jobs WHERE kind LIKE 'volume.%'"))
	}
	from := s.unusedVolume("golden.raw")
	if err := s.volumeRequests(from)[fleet.ActClone](); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("delete a volume that is being copied", fleet.Conflict, "clone volume", s.volumeRequests(from)[fleet.ActDelete])
	s.wantRefused("publish it", fleet.Conflict, "has not ended", func() error {
		return s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.nfs, Volume: of.Volume})
	})
}

// A volume that is being deleted cannot become an image of a new VM. A volume that a new VM uses cannot be deleted.
func TestVolumeBeingDeletedIsNotUsableByVM(t *testing.T) {
	s := newProjectFixture(t)
	gone := s.unusedVolume("gone.raw")
	if err := s.volumeRequests(gone)[fleet.ActDelete](); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a VM of a volume that is being deleted", fleet.Conflict, "delete volume", s.cloneRequest(chief, s.nfs, gone.Volume))
	kept := s.unusedVolume("kept.raw")
	if err := s.cloneRequest(chief, s.nfs, kept.Volume)(); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("delete a volume that a VM is created from", fleet.Conflict, "The VM clone is being created from the volume.", s.volumeRequests(kept)[fleet.ActDelete])

	// The deletion of a volume and the creation of a VM from it cannot both succeed.
	for n := range 4 {
		of := s.unusedVolume(fmt.Sprintf("race-%d.raw", n))
		in := control.CreateVM{ProjectID: s.red, Name: fmt.Sprintf("race-%d", n), Spec: smallSpec}
		in.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: of.Volume}}}
		var made, deleted error
		var wait sync.WaitGroup
		wait.Go(func() { _, made = s.CreateVM(context.WithoutCancel(t.Context()), chief, in) })
		wait.Go(func() { deleted = s.volumeRequests(of)[fleet.ActDelete]() })
		wait.Wait()
		if (made == nil) == (deleted == nil) {
			t.Errorf("made: %v, deleted: %v", made, deleted)
		}
	}
}

func TestVolumeJobNamesVMsUsingVolume(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("data.raw")
	agent := s.agentSession(s.h1)
	s.execSQL(`UPDATE host_sessions SET seen_at = NULL WHERE host_id = $1`, s.h2)
	task, err := s.DeleteVolume(t.Context(), chief, of, "data.raw")
	if err != nil || task.HostID != s.h1 {
		t.Fatalf("%+v %v", task, err)
	}
	vm := s.createVM("web", fleet.Stopped)
	s.setSpecField(vm.ID, "disks", `[{"poolId":"`+string(s.nfs)+`","volume":"data.raw"}]`) // written without the checks of a use case
	claim, err := s.Claim(t.Context(), agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var work *wire.Work
	for i := range claim.Jobs {
		if claim.Jobs[i].Kind == fleet.VolumeDelete {
			work = &claim.Jobs[i]
		}
	}
	if work == nil || work.Pool == nil || work.Pool.ID != s.nfs || work.VolumeUsers == nil || work.VolumeUsers.Disk != "web" || work.Args.Volume == nil || !work.Kind.IsSingleShot(work.Args) {
		t.Fatalf("the work is %+v", work)
	}
	after := &fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1 << 40, Volumes: []fleet.Volume{{Name: "left.raw", Format: "raw"}}}
	finish := wire.Finish{Epoch: work.Epoch, Seq: queryValue[int64](&hostFixture{t: t, pool: s.pool}, `SELECT (number << 32) + 1 FROM host_sessions WHERE host_id = $1`, s.h1), Outcome: wire.Done, Pool: after}
	if _, _, err := s.Finish(t.Context(), agent, work.ID, finish); err != nil {
		t.Fatal(err)
	}
	if got := volumeNames(t)(s.PoolVolumes(t.Context(), chief, s.nfs)); !strings.Contains(got, "left.raw") {
		t.Errorf("after the job the pool has %q", got)
	}
	if n := s.countRows("assignments WHERE observed_generation <> 1 AND pool_id IS NOT NULL"); n != 0 {
		t.Errorf("%d assignments count as acted on", n)
	}
}

func TestVolumesHiddenFromTenants(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("data.raw")
	for _, a := range []fleet.Actor{s.member, s.viewer, s.blueMember} {
		s.wantRefused("create", fleet.Forbidden, "do not have permission", func() error {
			_, err := s.CreateVolume(t.Context(), a, s.nfs, storage.NewVolume{Name: "x.raw", Format: "raw", SizeBytes: 1})
			return err
		})
		s.wantRefused("delete", fleet.Forbidden, "do not have permission", func() error { _, err := s.DeleteVolume(t.Context(), a, of, "data.raw"); return err })
	}
	if got := volumeNames(t)(s.PoolVolumes(t.Context(), s.member, s.nfs)); strings.Contains(got, "data.raw") {
		t.Errorf("a tenant sees %q", got)
	}
	s.setReportedVolumeFields(storage.VolumeID{PoolID: s.nfs, Volume: "cd.iso"}, s.h1, `{"inDrive":["22222222-2222-4222-8222-222222222222"],"modifiedAt":"2026-01-01T00:00:00Z","baseOf":["x"]}`)
	all, err := s.PoolVolumes(t.Context(), s.member, s.nfs)
	for _, v := range all {
		if v.InDrive != nil || v.BaseOf != nil || v.ModifiedAt != nil || v.Actions != nil || v.Orphan {
			t.Errorf("a tenant gets %+v", v)
		}
	}
	if err != nil || len(all) == 0 {
		t.Error(err, all)
	}
	local := s.unusedVolume("twice.raw")
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at) SELECT 'pool', $1, $2, 'assign', status, 1, now() FROM assignments WHERE pool_id = $1`, s.local, s.h2)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.local, h, `{"name":"twice.raw","path":"/srv/vm/twice.raw","format":"raw","capacityBytes":1}`)
	}
	local.PoolID = s.local
	s.wantRefused("without naming the host", fleet.Invalid, "Several hosts", s.volumeRequests(local)[fleet.ActDelete])
	local.HostID = s.h2
	if err := s.volumeRequests(local)[fleet.ActDelete](); err != nil {
		t.Errorf("that of one host: %v", err)
	}
}
