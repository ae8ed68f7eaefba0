package vm

import (
	"net/url"
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// MoveDiskPage is the dialog that moves a disk to another pool.
type MoveDiskPage struct {
	VM      fleet.VMView
	Disk    fleet.Disk
	Number  int    // index in the VM's disks
	Pool    string // current pool
	Why     string // why the disk cannot move now
	Targets []fleet.MoveTarget
	In      MoveDiskForm
	Errors  kit.Errors
}

// MoveDiskForm holds the values that a person chose in the dialog of a disk migration.
type MoveDiskForm struct {
	Pool, Rate string
	Overcommit bool
}

func (p MoveDiskPage) dialog() kit.Dialog {
	return kit.Dialog{
		Help:  kit.HelpMoveDisk,
		Title: "Move disk " + strconv.Itoa(p.Number) + " of " + p.VM.Name, Button: "Move disk", Back: views.VMPath(p.VM.ID),
		Action: diskActionPath(p.VM.ID, "move", p.Disk.Ref()),
	}
}

func diskActionPath(id fleet.VMID, act string, disk fleet.Volref) string {
	return kit.Link{Path: views.VMPath(id, "disks", act), Query: url.Values{"disk": {VolumeValue(disk.PoolID, disk.Volume)}}}.String()
}

// selectable reports whether a person may choose the target. A target that lacks only space can be chosen by people who
// may overcommit.
func (p MoveDiskPage) selectable(t fleet.MoveTarget) bool {
	return t.Allowed || t.LacksOnlySpace && p.needsOvercommit()
}

func (p MoveDiskPage) needsOvercommit() bool {
	return p.In.Overcommit || p.Errors.At("overcommit") != "" || p.targetsLackOnlySpace()
}

// targetsLackOnlySpace reports whether no pool can take the disk, but at least one lacks only free space.
func (p MoveDiskPage) targetsLackOnlySpace() bool {
	room := false
	for _, t := range p.Targets {
		if t.Allowed {
			return false
		}
		room = room || t.LacksOnlySpace
	}
	return room
}

func (p MoveDiskPage) effectText() string {
	if p.VM.Status != nil && (p.VM.Status.Power == fleet.Running || p.VM.Status.Power == fleet.Paused) {
		return "The guest keeps running. The guest's writes are mirrored until the copy is complete; then the guest switches to the copy."
	}
	return "The guest is off: the file is copied and verified, and then the VM's definition is changed. The VM can start after that."
}

// moveDiskAction is the action that moves a disk.
func (p Page) moveDiskAction(d fleet.Disk) kit.ActionButton {
	_, why := p.VM.AllowsDiskMigration(d.Ref(), p.DiskMigrations)
	return kit.ActionButton{Icon: "database", Word: "Move to another pool…", Href: diskActionPath(p.VM.ID, "move", d.Ref()), Dialog: true}.
		DisableFor(p.MoveWhy).RequirePermission(p.Actor, policy.InfraChange).DisableFor(why)
}

// runningDiskMigration is the disk's running migration; nil: none.
func (p Page) runningDiskMigration(d fleet.Disk) *fleet.MovingDisk {
	for i, m := range p.DiskMigrations {
		if m.Disk == d.Ref() {
			return &p.DiskMigrations[i]
		}
	}
	return nil
}

func diskMigrationText(m fleet.MovingDisk) string {
	if m.State == fleet.JobQueued {
		return "waiting for disk migration"
	}
	return "being moved, " + strconv.Itoa(m.Progress) + " %"
}
