package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// GrowDisk is the input of Control.GrowDisk.
type GrowDisk struct {
	SizeBytes  int64 `json:"sizeBytes" doc:"The disk's new size as the guest sees it, larger than the current size. A requested size that no host could provide can be reduced, down to the disk's actual size"`
	Overcommit bool  `json:"overcommit,omitempty" doc:"Allow overcommit of the pool; needs the permission to change infrastructure"`
}

// GrowDisk enlarges a disk of a VM by an edit of the VM; a running guest sees the new size at once.
func (c *Control) GrowDisk(ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref, in GrowDisk) (fleet.VMView, fleet.TaskID, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.VMView{}, "", err
	}
	var checks fleet.Checks
	if fleet.CheckVolumeSize(&checks, "sizeBytes", in.SizeBytes); checks.Err() != nil {
		return fleet.VMView{}, "", checks.Err()
	}
	vm, task, err := c.UpdateVM(ctx, a, id, UpdateVM{grow: &diskGrowth{disk, in}})
	if err == nil && task == "" {
		checks.Add("sizeBytes", "The disk has %s already, and disks cannot shrink.", fleet.FormatBytes(in.SizeBytes))
		err = checks.Err()
	}
	return vm, task, err
}

// diskGrowth is an edit of one disk's size.
type diskGrowth struct {
	disk fleet.Volref
	GrowDisk
}

// growDisk returns the spec with the disk's new size.
func (g diskGrowth) growDisk(spec fleet.VMSpec) (fleet.VMSpec, error) {
	i := slices.IndexFunc(spec.Disks, func(d fleet.Disk) bool { return d.Ref() == g.disk })
	if i < 0 {
		return spec, fleet.Errorf(fleet.NotFound, "The VM has no disk %q any more. Reload and try again.", g.disk.Volume)
	}
	spec.Disks = slices.Clone(spec.Disks)
	spec.Disks[i].SizeBytes = g.SizeBytes
	return spec, nil
}

// checkDiskGrowth refuses disks that cannot grow to the requested size. single is the request of GrowDisk; nil: the
// edit is a complete spec.
func checkDiskGrowth(ctx context.Context, q *db.Queries, a fleet.Actor, old fleet.VMView, to fleet.VMSpec, single *diskGrowth) error {
	growing := old.GrowingDisks(to)
	if len(growing) == 0 {
		return nil
	}
	var checks fleet.Checks
	at := func(i int) string {
		if single != nil {
			return "sizeBytes"
		}
		return fmt.Sprintf("spec.disks[%d].sizeBytes", i)
	}
	moving, err := readDiskMigrations(ctx, q, old.ID)
	if err != nil {
		return err
	}
	more := make([]fleet.Disk, len(to.Disks))
	for i, d := range to.Disks {
		has, grows := growing[i]
		switch {
		case !grows:
			continue
		case d.SizeBytes < has:
			checks.Add(at(i), "The disk on the host has %s already, and disks cannot shrink.", fleet.FormatBytes(has))
			continue
		}
		if ok, why := old.AllowsDiskGrowth(d, moving); !ok {
			return fleet.Errorf(fleet.Conflict, "The disk %s cannot grow: %s", d.Volume, why)
		}
		more[i] = fleet.Disk{PoolID: d.PoolID, SizeBytes: d.SizeBytes - has}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	pools := slices.DeleteFunc(slices.Clone(more), func(d fleet.Disk) bool { return d.PoolID == "" })
	// Read locks the pools, so no new volume job can be queued until this transaction ends.
	hosts, err := placing.Candidates{Host: old.HostID, Spec: fleet.VMSpec{Disks: pools}}.Read(ctx, q, a)
	if err != nil || len(hosts) == 0 {
		return err
	}
	if err := checkDisksGrowable(ctx, q, old, to, more); err != nil {
		return err
	}
	h, may := hosts[0], policy.May(a, policy.InfraChange, "")
	h.Overcommit = single != nil && single.Overcommit
	if h.Overcommit && !may {
		checks.Add("overcommit", "Only those who may change infrastructure may overcommit pools.")
	}
	for i, d := range more {
		if d.PoolID == "" {
			continue
		}
		for _, f := range placement.DiskFaults([]fleet.Disk{d}, h) {
			if f.Overcommittable {
				p := h.Pools[d.PoolID]
				f.Message = fmt.Sprintf("Pool %s on %s has %s not provisioned to volumes, and the disk would take %s more.", p.Name, h.Name, fleet.FormatBytes(max(0, p.FreeBytes)), fleet.FormatBytes(d.SizeBytes))
			}
			checks.Add(at(i), "%s", placementFaultText(a, f))
			if f.Overcommittable && single != nil && may {
				checks.Add("overcommit", overcommitHint)
			}
		}
		on := h.Pools[d.PoolID]
		on.FreeBytes -= d.SizeBytes // each further disk in the pool needs space too
		h.Pools[d.PoolID] = on
	}
	return checks.Err()
}

// checkDisksGrowable refuses disks that back other volumes, or that unfinished jobs change or read. Elements of growing
// without a pool are disks that do not grow.
func checkDisksGrowable(ctx context.Context, q *db.Queries, vm fleet.VMView, to fleet.VMSpec, growing []fleet.Disk) error {
	var params db.VolumesNamedParams
	for i, d := range to.Disks {
		if growing[i].PoolID == "" {
			continue
		}
		params.Pools, params.Volumes = append(params.Pools, string(d.PoolID)), append(params.Volumes, d.Volume)
		work, err := storage.UnfinishedVolumeJobVerb(ctx, q, d.PoolID, d.Volume, vm.HostID)
		if err != nil {
			return err
		}
		if work != "" {
			return fleet.Errorf(fleet.Conflict, "The disk %s is in use: %s. Wait until that task has ended, and try again.", d.Volume, strings.ToLower(work))
		}
	}
	rows, err := q.VolumesNamed(ctx, params)
	if err != nil {
		return err
	}
	for _, r := range rows {
		var v fleet.Volume
		if err := json.Unmarshal(r.Found, &v); err != nil {
			return fmt.Errorf("read volume %s: %w", r.Volume, err)
		}
		if r.HostID == vm.HostID && len(v.BaseOf) > 0 {
			return fleet.Errorf(fleet.Conflict, "The disk %s cannot grow: the volume %s is backed by the disk and would be damaged. Flatten or delete that volume first.", r.Volume, v.BaseOf[0])
		}
	}
	return nil
}

// reducesDiskSize reports whether the change at field reduces a disk's size.
func reducesDiskSize(old, vm fleet.VMView, field string) bool {
	for i, d := range vm.Spec.Disks {
		if fmt.Sprintf("spec.disks[%d]", i) != field {
			continue
		}
		k := slices.IndexFunc(old.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		return k >= 0 && d.SizeBytes < old.Spec.Disks[k].SizeBytes
	}
	return false
}

// auditAction returns the audit action of the edit.
func (in UpdateVM) auditAction() string {
	if in.grow != nil {
		return "vm.disk.grow"
	}
	return "vm.edit"
}

// editedSpec returns the spec after the edit, or nil if the edit does not change the spec.
func (in UpdateVM) editedSpec(old fleet.VMView) (*fleet.VMSpec, error) {
	if in.grow == nil {
		return in.Spec, nil
	}
	spec, err := in.grow.growDisk(old.Spec)
	return &spec, err
}
