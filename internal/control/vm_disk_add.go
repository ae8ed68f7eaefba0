package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// addedDiskSet are the disks that an edit adds. They get pools, names and checks like the disks of a new VM.
type addedDiskSet struct {
	indexes []int        // their indexes in the edited spec
	spec    fleet.VMSpec // a spec with only these disks
}

// findAddedDisks returns the disks of the edited spec that are not in the old spec.
func findAddedDisks(old, edited fleet.VMSpec) addedDiskSet {
	out := addedDiskSet{}
	for i, d := range edited.Disks {
		if d.Volume == "" || !slices.ContainsFunc(old.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
			out.indexes, out.spec.Disks = append(out.indexes, i), append(out.spec.Disks, d)
		}
	}
	return out
}

// mapFieldToEdit maps the name of a field in n.spec to the name of the same field in the edited spec.
func (n addedDiskSet) mapFieldToEdit(name string) string {
	for k, i := range n.indexes {
		if rest, ok := strings.CutPrefix(name, fmt.Sprintf("spec.disks[%d]", k)); ok {
			return fmt.Sprintf("spec.disks[%d]%s", i, rest)
		}
	}
	return name
}

// mapErrorToEdit returns err with field names of n.spec mapped to those of the edited spec.
func (n addedDiskSet) mapErrorToEdit(err error) error {
	wrong, ok := err.(*fleet.Error) //nolint:errorlint // a wrapped error has no fields
	if !ok {
		return err
	}
	out := *wrong
	out.Fields = slices.Clone(wrong.Fields)
	for i := range out.Fields {
		out.Fields[i].Field = n.mapFieldToEdit(out.Fields[i].Field)
	}
	return &out
}

// planNewDisks finds the image copies for the new disks of an edit. It must be called before the transaction takes
// locks.
func (c *Control) planNewDisks(ctx context.Context, a fleet.Actor, id fleet.VMID, to *fleet.VMSpec) ([]imagePlan, error) {
	if to == nil || !slices.ContainsFunc(to.Disks, func(d fleet.Disk) bool { return d.Volume == "" && d.ImageID != "" }) {
		return nil, nil
	}
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return nil, err
	}
	fresh := findAddedDisks(vm.Spec, *to)
	plans, err := c.planImages(ctx, a, vm.ProjectID, fresh.spec)
	return plans, fresh.mapErrorToEdit(err)
}

// prepareAddedDisks fills in names and sources of the disks that an edit adds, and returns the jobs that must end
// before the host can create them.
func (e vmEdit) prepareAddedDisks(ctx context.Context, q *db.Queries, a fleet.Actor) (preparationSteps, error) {
	to := &e.vm.Spec
	fresh := findAddedDisks(e.old.Spec, *to)
	if len(fresh.indexes) == 0 {
		return preparationSteps{}, nil
	}
	first, err := fresh.completeAddedDisks(ctx, q, a, e)
	if err != nil {
		return preparationSteps{}, fresh.mapErrorToEdit(err)
	}
	to.Disks = slices.Clone(to.Disks)
	for k, i := range fresh.indexes {
		to.Disks[i] = fresh.spec.Disks[k]
	}
	return first, nil
}

func (n *addedDiskSet) completeAddedDisks(ctx context.Context, q *db.Queries, a fleet.Actor, edit vmEdit) (first preparationSteps, err error) {
	old, plans := edit.old, edit.imagePlans
	var checks fleet.Checks
	for k := range n.spec.Disks {
		d := &n.spec.Disks[k]
		at := fmt.Sprintf("spec.disks[%d]", k)
		if d.Image != nil && d.ImageID != "" {
			checks.Add(at+".imageId", "Name an image of the library or a volume of a pool, not both.")
		}
		switch {
		case d.Existing:
		case d.Volume != "":
			checks.Add(at+".volume", "The VM has no disk of this name. Leave the name out for a new disk; it gets one.")
		default:
			// The generation in the name makes it differ from the names of all earlier disks of the VM.
			d.Volume = fmt.Sprintf("%s-%s-%d-%d.qcow2", old.Name, old.ID[len(old.ID)-12:], old.Generation+1, k+1)
		}
	}
	n.spec.Firmware = edit.vm.Spec.Firmware
	if err := checks.Err(); err != nil {
		return first, err
	}
	if err := checkPoolsForDisks(ctx, q, a, old.ProjectID, n.spec.Disks); err != nil {
		return first, err
	}
	if len(plans) > 0 {
		if err := lockImages(ctx, q, a, old.ProjectID, plans); err != nil {
			return first, err
		}
	}
	hosts, err := placing.Candidates{Host: old.HostID, Spec: n.spec, Pools: poolsWithCopies(plans)}.Read(ctx, q, a)
	if err != nil {
		return first, err
	}
	if len(hosts) == 0 {
		return first, fleet.Errorf(fleet.Conflict, "The VM's host was removed.")
	}
	hosts[0].Overcommit = edit.overcommit
	addImageSources(plans, n.spec, &hosts[0])
	faults := placement.Faults(n.spec, hosts[0])
	for _, f := range faults {
		checks.Add(f.Field, "%s", placementFaultText(a, f))
	}
	if policy.May(a, policy.InfraChange, "") && slices.ContainsFunc(faults, func(f placement.Fault) bool { return f.Overcommittable }) {
		checks.Add("overcommit", overcommitHint)
	}
	if err := checks.Err(); err != nil {
		return first, err
	}
	if err := checkVolumesPublished(ctx, q, a, old.ProjectID, sourceVolumes(n.spec)); err != nil {
		return first, err
	}
	for _, d := range n.spec.Disks {
		taken, err := q.VolumeNameReserved(ctx, db.VolumeNameReservedParams{PoolID: string(d.PoolID), Volume: d.Volume})
		if err != nil {
			return first, err
		}
		if taken && !d.Existing {
			return first, fleet.Errorf(fleet.Conflict, "The pool already has a volume %s that is not a disk of this VM. Rename or delete that volume.", d.Volume)
		}
	}
	return chooseImageSources(ctx, q, plans, &n.spec, hosts[0])
}

// checkDetachable refuses the removal of disks that belong to a snapshot or are being moved. The data of removed disks
// stays.
func checkDetachable(ctx context.Context, q *db.Queries, old fleet.VMView, to fleet.VMSpec) error {
	var removed []fleet.Disk
	for _, d := range old.Spec.Disks {
		if !slices.ContainsFunc(to.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
			removed = append(removed, d)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	moving, err := readDiskMigrations(ctx, q, old.ID)
	if err != nil {
		return err
	}
	for _, d := range removed {
		created := old.Status != nil && slices.ContainsFunc(old.Status.Disks, func(on fleet.DiskState) bool { return on.Volume != nil && *on.Volume == d.Ref() })
		if why := old.WhySnapshotsBlockDiskJobs(); created && why != "" {
			return fleet.Errorf(fleet.Conflict, "The disk %s cannot be detached: %s", d.Volume, why)
		}
		if slices.ContainsFunc(moving, func(m fleet.MovingDisk) bool { return m.Disk == d.Ref() }) {
			return fleet.Errorf(fleet.Conflict, "The disk %s is being moved to another pool, so it cannot be detached. Wait until the disk migration has ended, or cancel it in the VM's tasks.", d.Volume)
		}
	}
	return nil
}

// changedDiskFields returns a spec that contains only the disk fields that the edit changes to a value other than the
// default.
func changedDiskFields(old, to fleet.VMSpec) fleet.VMSpec {
	out := fleet.VMSpec{Disks: make([]fleet.Disk, len(to.Disks))}
	for i, d := range to.Disks {
		k := slices.IndexFunc(old.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		for _, f := range fleet.DiskFields {
			if k >= 0 && !f.Same(old.Disks[k], d) {
				f.Copy(&out.Disks[i], d)
			}
		}
	}
	return out
}
