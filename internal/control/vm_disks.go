package control

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// NewDisk is the replacement for a missing disk.
type NewDisk struct {
	Volume    string `json:"volume"`              // the new disk's name, which must be free
	SizeBytes int64  `json:"sizeBytes,omitempty"` // 0: the missing disk's size
	Clone     bool   `json:"clone,omitempty"`     // copy the missing disk's image again; otherwise blank
}

// DetachDisk removes a disk whose file is missing on the host from the VM. No data is deleted: a file that reappears
// stays. Only a disk that the host reports as missing can be detached this way.
func (c *Control) DetachDisk(ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref) (fleet.VMView, fleet.TaskID, error) {
	return c.repairDisk(ctx, a, id, disk, func(_ *db.Queries, vm *fleet.VMView, i int) (string, error) {
		vm.Spec.Disks = slices.Delete(slices.Clone(vm.Spec.Disks), i, i+1)
		return "vm.disk.detach", nil
	})
}

// ReplaceDisk replaces a disk whose file is missing on the host by a new disk with a new name. The old name is never
// reused. Only a disk that the host reports as missing can be replaced.
func (c *Control) ReplaceDisk(ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref, in NewDisk) (fleet.VMView, fleet.TaskID, error) {
	return c.repairDisk(ctx, a, id, disk, func(q *db.Queries, vm *fleet.VMView, i int) (string, error) {
		d := vm.Spec.Disks[i]
		if d.Shareable {
			return "", fleet.Errorf(fleet.Conflict, "Disk %d (%s) is shared with other VMs, so it cannot be replaced. Restore its volume, or detach the disk.", i+1, d.Volume)
		}
		d.Volume = in.Volume
		if in.SizeBytes != 0 {
			d.SizeBytes = in.SizeBytes
		}
		if !in.Clone {
			d.Image, d.ImageID, d.VersionID, d.ImageSHA256, d.Overlay = nil, "", "", "", false
		}
		vm.Spec.Disks = slices.Clone(vm.Spec.Disks)
		vm.Spec.Disks[i] = d
		return "vm.disk.replace", checkNewDisk(ctx, q, a, *vm, d, in)
	})
}

// repairDisk calls do, which changes disk i of the locked VM and returns the audit action, and applies the change as an
// edit. It refuses a disk that the host does not report as missing.
func (c *Control) repairDisk(
	ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref, do func(q *db.Queries, vm *fleet.VMView, i int) (action string, err error),
) (vm fleet.VMView, job fleet.TaskID, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return vm, "", err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return vm, "", err
	}
	if disk, err = revealPools(ctx, c, a, id, disk); err != nil {
		return vm, "", err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		if vm, err = store.LockVM(ctx, q, a, id, policy.VMChange); err != nil {
			return err
		}
		if ok, why := vm.Allows(fleet.ActEdit); !ok {
			return fleet.RefusalError(why)
		}
		i := slices.IndexFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == disk })
		if i < 0 {
			return fleet.Errorf(fleet.Conflict, "The VM has no disk %q any more. Reload and try again.", disk.Volume)
		}
		if vm.MissingDiskFault(disk) == nil {
			return fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not missing, so it stays as it is.", i+1, disk.Volume)
		}
		action, err := do(q, &vm, i)
		if err != nil {
			return err
		}
		detail := fmt.Sprintf("disk %d, %s", i+1, disk.Volume)
		if i < len(vm.Spec.Disks) && action == "vm.disk.replace" {
			detail += " → " + vm.Spec.Disks[i].Volume
		}
		vm, job, err = applyVMChange(ctx, q, a, vmChange{vm: vm, action: action, detail: detail})
		return err
	})
	vm, err = c.shownVM(ctx, a, vm, err)
	return vm, job, err
}

// vmChange is a change of a VM, with its audit entry.
type vmChange struct {
	vm     fleet.VMView // with its new spec and name
	action string       // audit action
	detail string       // audit detail
	// child is the child task of a bulk edit. Empty: the edit gets a new task, or coalesces with a queued task.
	child fleet.TaskID
}

// applyVMChange writes a locked VM's new spec and name, queues vm.apply and writes the audit line.
func applyVMChange(ctx context.Context, q *db.Queries, a fleet.Actor, change vmChange) (fleet.VMView, fleet.TaskID, error) {
	vm := change.vm
	if err := storeChangedVM(ctx, q, &vm); err != nil {
		return vm, "", vmNameTakenError(err, vm.Name, vm.ProjectName)
	}
	order := vmJobParams(vm, fleet.VMApply, fleet.JobArgs{})
	if change.child != "" {
		order.Child = (*string)(&change.child)
	}
	task, err := store.JoinOrQueueJob(ctx, q, a, order)
	if err != nil {
		return vm, "", fmt.Errorf("queue %s: %w", order.Kind, err)
	}
	if err := store.Audit(ctx, q, a, change.action, fleet.SubjectVM(vm.ID), vm.Name, change.detail); err != nil {
		return vm, "", err
	}
	vm, err = store.GetVM(ctx, q, a, vm.ID)
	return vm, task, err
}

// checkNewDisk refuses a disk whose name is taken, or that the VM's host cannot create.
func checkNewDisk(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, d fleet.Disk, in NewDisk) error {
	var checks fleet.Checks
	spec, err := storage.ReadPoolSpec(ctx, q, d.PoolID)
	if err != nil {
		return err
	}
	d.CheckVolumeName(&checks, "volume", in.Volume, spec.Kind)
	if !spec.Kind.Info().CreatesVolumes {
		return fleet.Errorf(fleet.Conflict, "The disk %s is in a pool in which Quantix cannot make volumes. Detach the disk.", d.Volume)
	}
	if in.Clone && d.Image == nil {
		checks.Add("clone", "This disk was not made from an image. Choose a blank disk.")
	}
	if d.Image == nil && d.SizeBytes <= 0 {
		checks.Add("sizeBytes", "Give the new disk a size above 0.")
	}
	if err := checks.Err(); err != nil {
		return err
	}
	vm.Spec.Check(&checks, "spec")
	if err := checks.Err(); err != nil {
		return err
	}
	taken, err := q.VolumeNameReserved(ctx, db.VolumeNameReservedParams{PoolID: string(d.PoolID), Volume: d.Volume})
	if err != nil {
		return err
	}
	if taken {
		checks.Add("volume", "The pool has or had a volume with this name. Choose another name: a new disk never replaces data.")
		return checks.Err()
	}
	hosts, err := placing.Candidates{Host: vm.HostID, Spec: fleet.VMSpec{Disks: []fleet.Disk{d}}}.Read(ctx, q, a)
	if err != nil || len(hosts) == 0 {
		return err
	}
	for _, f := range placement.Faults(fleet.VMSpec{Firmware: vm.Spec.Firmware, Disks: []fleet.Disk{d}}, hosts[0]) {
		checks.Add(strings.TrimPrefix(f.Field, "spec.disks[0]."), "%s", placementFaultText(a, f))
	}
	if err := checks.Err(); err != nil || d.Image == nil {
		return err
	}
	return checkVolumesPublished(ctx, q, a, vm.ProjectID, map[string]fleet.Volref{"clone": *d.Image})
}

// NewDiskName returns a generated name for the replacement of a disk. It contains a number above the VM's generation,
// so that no earlier replacement had the name.
func NewDiskName(vm fleet.VMView, old fleet.Disk) string {
	name := newVolumeName(vm.Name, vm.ID, max(len(vm.Spec.Disks), int(vm.Generation))+1)
	if path.Ext(old.Volume) == "."+fleet.Raw {
		name = strings.TrimSuffix(name, path.Ext(name)) + "." + fleet.Raw
	}
	return name
}

// newVolumeName returns the name of a VM's n-th disk. It uses the random end of the UUIDv7, because VMs created in the
// same minute share the beginning.
func newVolumeName(vm string, id fleet.VMID, n int) string {
	return fmt.Sprintf("%s-%s-%d.qcow2", vm, id[len(id)-12:], n)
}
