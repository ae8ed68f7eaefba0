package control_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// growRequest returns a function that requests the disk's new size.
func (s *projectFixture) growRequest(a fleet.Actor, v fleet.VMView, disk fleet.Volref, in control.GrowDisk) func() error {
	return func() error { _, _, err := s.GrowDisk(s.t.Context(), a, v.ID, disk, in); return withFieldErrors(err) }
}

// withFieldErrors returns err with its field errors in the text.
func withFieldErrors(err error) error {
	var e *fleet.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return err
	}
	var words strings.Builder
	for _, f := range e.Fields {
		fmt.Fprintf(&words, "%s: %s ", f.Field, f.Message)
	}
	return fleet.Errorf(e.Code, "%s", words.String())
}

func TestGrowDiskChangesOnlySize(t *testing.T) {
	s := newProjectFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	now, task, err := s.GrowDisk(t.Context(), s.member, v.ID, disk, control.GrowDisk{SizeBytes: 2 << 30})
	if err != nil || task == "" || now.Spec.Disks[0].SizeBytes != 2<<30 || now.Generation != v.Generation+1 {
		t.Fatalf("%+v %q %v", now.Spec.Disks, task, err)
	}
	if s.countRows("audit WHERE action = 'vm.disk.grow' AND detail = 'disk "+disk.Volume+" 1 GiB → 2 GiB'") != 1 {
		t.Errorf("the audit says %s", queryText(s, "SELECT action || ' ' || detail FROM audit ORDER BY id DESC LIMIT 1"))
	}
	if s.countRows("jobs WHERE kind = 'vm.apply' AND state = 'queued' AND subject = '"+string(fleet.SubjectVM(v.ID))+"'") != 1 {
		t.Error("no job is queued")
	}
	for name, size := range map[string]int64{"less": 1 << 29, "as much": 2 << 30, "nothing": 0, "below nothing": -1, "without end": 1 << 60} {
		s.wantRefused(name, fleet.Invalid, "", s.growRequest(chief, v, disk, control.GrowDisk{SizeBytes: size}))
	}
	s.wantRefused("no disk", fleet.NotFound, "no disk", s.growRequest(chief, v, fleet.Volref{PoolID: s.local, Volume: "x"}, control.GrowDisk{SizeBytes: 2 << 30}))
	s.wantRefused("a viewer", fleet.Forbidden, "", s.growRequest(s.viewer, v, disk, control.GrowDisk{SizeBytes: 4 << 30}))
	s.wantRefused("a user of another project", fleet.NotFound, "", s.growRequest(s.blueMember, v, disk, control.GrowDisk{SizeBytes: 4 << 30}))

	// An edit of the complete spec can also grow a disk, but cannot change fields such as its format.
	edit := func(f func(*fleet.Disk)) error {
		spec := s.getVM(v.ID).Spec
		spec.Disks = append([]fleet.Disk{}, spec.Disks...)
		f(&spec.Disks[0])
		_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
		return withFieldErrors(err)
	}
	if err := edit(func(d *fleet.Disk) { d.SizeBytes = 3 << 30 }); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("to shrink", fleet.Invalid, "cannot shrink: disk "+disk.Volume+" 3 GiB → 0 B", func() error { return edit(func(d *fleet.Disk) { d.SizeBytes = 0 }) })
	s.wantRefused("another file", fleet.Invalid, "spec.disks[0].volume: The VM has no disk of this name", func() error { return edit(func(d *fleet.Disk) { d.Volume = "other.qcow2" }) })

	// A spec with a size that the host could not provide can be corrected, down to the disk's actual size.
	if err := edit(func(d *fleet.Disk) { d.SizeBytes = 1 << 30 }); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("less than the host has", fleet.Invalid, "cannot shrink", func() error { return edit(func(d *fleet.Disk) { d.SizeBytes = 1 << 29 }) })
}

// A disk that an administrator enlarged on the host keeps its size in later edits. Later growth starts from that size.
func TestEditKeepsSizeOfDiskGrownOnHost(t *testing.T) {
	s := newProjectFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{disks,0,sizeBytes}', '4294967296') WHERE id = $1`, v.ID)
	s.wantRefused("below the host's size", fleet.Invalid, "4 GiB already", s.growRequest(chief, v, disk, control.GrowDisk{SizeBytes: 2 << 30}))
	if _, _, err := s.GrowDisk(t.Context(), chief, v.ID, disk, control.GrowDisk{SizeBytes: 4 << 30}); err != nil {
		t.Errorf("the host's own size is refused: %v", err)
	}
}

func TestInvalidDiskGrowthRefused(t *testing.T) {
	s := newProjectFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	more := control.GrowDisk{SizeBytes: 2 << 30}
	set := func(path, value string) (undo func()) {
		was := queryText(s, "SELECT status::text FROM assignments WHERE pool_id = '"+string(s.local)+"' AND host_id = '"+string(s.h1)+"'")
		s.execSQL(`UPDATE assignments SET status = jsonb_set(status, $3::text[], $4::jsonb) WHERE pool_id = $1 AND host_id = $2`, s.local, s.h1, path, value)
		return func() {
			s.execSQL(`UPDATE assignments SET status = $3::jsonb WHERE pool_id = $1 AND host_id = $2`, s.local, s.h1, was)
		}
	}
	undo := set("{availableBytes}", "1000")
	s.wantRefused("without room", fleet.Invalid, "would take 1 GiB more", s.growRequest(chief, v, disk, more))
	s.wantRefused("without room, to a tenant", fleet.Invalid, "No room for 1 GiB", s.growRequest(s.member, v, disk, more))
	s.wantRefused("a tenant with overcommit", fleet.Invalid, "Only those who may change infrastructure", s.growRequest(s.member, v, disk, control.GrowDisk{SizeBytes: 2 << 30, Overcommit: true}))
	if _, _, err := s.GrowDisk(t.Context(), chief, v.ID, disk, control.GrowDisk{SizeBytes: 2 << 30, Overcommit: true}); err != nil {
		t.Errorf("who says so: %v", err)
	}
	undo()

	// Space for the requested growth of one disk is reserved, so less is free for another disk.
	other, second := s.vmWithLocalDisk("db")
	undo = set("{availableBytes}", "1600000000")
	s.wantRefused("space reserved for another disk", fleet.Invalid, "would take 1 GiB more", s.growRequest(chief, other, second, more))
	undo()
	undo = set("{state}", `"failed"`)
	s.wantRefused("a pool that failed", fleet.Invalid, "failed", s.growRequest(chief, other, second, more))
	undo()
	undo = set("{volumes}", `[{"name":"`+second.Volume+`","format":"qcow2","capacityBytes":1073741824,"baseOf":["snap.qcow2"]}]`)
	s.wantRefused("a disk that backs another volume", fleet.Conflict, "the volume snap.qcow2 is backed by the disk", s.growRequest(chief, other, second, more))
	undo()
	if _, err := s.MoveDisk(t.Context(), chief, other.ID, second, control.MoveDisk{PoolID: s.nfs}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a migrating disk", fleet.Conflict, "being moved", s.growRequest(chief, other, second, more))
	lun, third := s.vmWithLocalDisk("lun")
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,existing}', 'true') WHERE id = $1`, lun.ID)
	s.wantRefused("a LUN", fleet.Invalid, "A disk on an existing volume has the size", s.growRequest(chief, lun, third, more))
	broken, lost := s.vmWithMissingDisk("gone")
	s.wantRefused("a missing object", fleet.Conflict, "not on h1", s.growRequest(chief, broken, lost, control.GrowDisk{SizeBytes: 8 << 30}))
	if err := s.growRequest(s.member, broken, lost, control.GrowDisk{SizeBytes: 8 << 30})(); err == nil || strings.Contains(err.Error(), "/mnt") {
		t.Errorf("a tenant gets %v", err)
	}
}
