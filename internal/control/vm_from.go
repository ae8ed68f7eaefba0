package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/flavors"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/template"
	"quantix/internal/vmcopy"
)

// VMSource is the source of a new VM: a template, a VM or an appliance file.
type VMSource struct {
	TemplateID fleet.TemplateID        `json:"templateId,omitempty"`
	VersionID  fleet.TemplateVersionID `json:"versionId,omitempty" doc:"The template's version; empty: the newest one that is not deprecated"`
	Full       bool                    `json:"full,omitempty" doc:"Make full copies of the template's disks instead of overlays; only without a spec"`
	VMID       fleet.VMID              `json:"vmId,omitempty" doc:"The source VM: new VMs get full copies of its disks, on its host. The disks of a running VM are copied from a temporary snapshot. In a spec, the disks name the destination pools"`
	SnapshotID fleet.SnapshotID        `json:"snapshotId,omitempty" doc:"A snapshot of the source VM, which may be running: the disks are copied in the snapshot's state. All other settings are the VM's current ones"`
	Appliance  *ApplianceFile          `json:"appliance,omitempty" doc:"A file in a pool: an OVA archive, or a disk as VMDK, VHDX, VHD or VDI. The VM gets the file's disks, converted, in the file's sequence. Without a spec the VM is as the file proposes, with each NIC on the network of the same name, or else on the project's default network"`
	PoolID     fleet.PoolID            `json:"poolId,omitempty" doc:"The pool for all disks; empty: each disk's pool in the template or source VM. Only without a spec"`
}

// plannedSource is what planSource read about the source of a new VM before the transaction.
type plannedSource struct {
	images      []imagePlan
	vm          *fleet.VMView    // the VM whose disks are copied, or nil
	snapshotID  fleet.SnapshotID // the snapshot to copy from; empty: the current state
	disks       []fleet.Disk     // the disks to copy
	file        *query.VolumeOn  // the appliance whose disks are converted, or nil
	newVMID     fleet.VMID       // id of the new VM
	auditDetail string           // for the audit: " from template web, version 2"
}

// planSource fills in the spec from the source and finds image copies for the disks. It is idempotent: a call with the
// returned input returns the same input.
func (c *Control) planSource(ctx context.Context, a fleet.Actor, id fleet.VMID, in CreateVM) (CreateVM, plannedSource, error) {
	from := plannedSource{newVMID: id}
	derived := in.From != nil && isSpecEmpty(in.Spec)
	var err error
	if in.From != nil {
		var checks fleet.Checks
		switch at := *in.From; {
		case at.countSources() != 1:
			checks.Add("from", "Name a template, a VM or an appliance.")
			err = checks.Err()
		case at.SnapshotID != "" && at.VMID == "":
			checks.Add("from.snapshotId", "Name the VM that has the snapshot.")
			err = checks.Err()
		case at.Appliance != nil:
			err = c.planAppliance(ctx, a, &in, &from)
		case at.TemplateID != "":
			err = c.planFromTemplate(ctx, a, &in, &from)
		default:
			err = c.planClone(ctx, a, &in, &from)
		}
		if err != nil {
			return in, from, err
		}
	}
	in, err = c.fillPoolAndNetworkDefaults(ctx, a, in)
	if err != nil {
		return in, from, err
	}
	if in, err = c.applyProjectRules(ctx, a, in, &from, derived); err != nil {
		return in, from, err
	}
	if err := store.NameDeviceClasses(ctx, c.store.Queries, a, &in.Spec); err != nil {
		return in, from, err
	}
	completed := in
	if err := completed.completeInput(id); err != nil {
		return in, from, err
	}
	from.images, err = c.planImages(ctx, a, in.ProjectID, in.Spec)
	return in, from, err
}

// applyProjectRules fills in the flavor and the project's values for new VMs, and refuses what the project's rules
// refuse. The flavor becomes the spec's size, so that a later change of the flavor does not change a bulk task.
func (c *Control) applyProjectRules(ctx context.Context, a fleet.Actor, in CreateVM, from *plannedSource, derived bool) (CreateVM, error) {
	if in.ProjectID == "" {
		return in, nil // refused by completeInput
	}
	vm := flavors.NewVM{
		ProjectID: in.ProjectID, FlavorID: in.FlavorID, ExpiryDays: in.ExpiryDays, Derived: derived, Approved: in.approval == approvedByAdministrator,
		VM: flavor.VM{Name: in.Name, Spec: in.Spec, New: true, CopiedDisks: from.vm != nil || from.file != nil},
	}
	name, err := flavors.Prepare(ctx, c.store.Queries, a, &vm)
	if name != "" {
		from.auditDetail += ", flavor " + name
	}
	in.FlavorID, in.ExpiryDays, in.Spec = "", vm.ExpiryDays, vm.Spec
	return in, err
}

// isSpecEmpty reports whether the spec is empty.
func isSpecEmpty(s fleet.VMSpec) bool {
	return s.CPUs == 0 && s.MemoryMiB == 0 && s.Firmware == "" && len(s.Disks)+len(s.NICs) == 0
}

func (c *Control) planFromTemplate(ctx context.Context, a fleet.Actor, in *CreateVM, from *plannedSource) error {
	var checks fleet.Checks
	v, err := c.GetTemplate(ctx, a, in.From.TemplateID)
	if fleet.CodeOf(err) == fleet.NotFound || err == nil && !v.OpenToProject(in.ProjectID) && !policy.May(a, policy.InfraChange, "") {
		checks.Add("from.templateId", "There is no such template, or none that is published to the project.")
		return checks.Err()
	}
	if err != nil {
		return err
	}
	version := v.Version(in.From.VersionID)
	switch {
	case version == nil && in.From.VersionID != "":
		checks.Add("from.versionId", "The template %s has no such version.", v.Name)
		return checks.Err()
	case version == nil:
		_, why := v.Allows(fleet.ActNewVM)
		return fleet.Errorf(fleet.Conflict, "%s: %s", v.Name, why)
	}
	if why := version.WhyUnusable(); why != "" {
		return fleet.Errorf(fleet.Conflict, "Version %d of %s: %s", version.Number, v.Name, why)
	}
	at := *in.From
	at.VersionID = version.ID // a bulk task uses the version that was the newest at the time of the request
	in.From = &at
	if isSpecEmpty(in.Spec) {
		in.Spec = SpecOfTemplateVersion(*version, at.Full, at.PoolID)
	}
	if in.ProjectID != v.ProjectID {
		if in.Spec.NICs, err = c.withoutOtherProjectsGroups(ctx, in.ProjectID, in.Spec.NICs); err != nil {
			return err
		}
	}
	from.auditDetail = fmt.Sprintf(", from template %s, version %d", v.Name, version.Number)
	return nil
}

// SpecOfTemplateVersion returns the spec of a new VM from the template version. Its disks are full copies if full is
// set, otherwise overlays. They are in the given pool, or in the template's pools if pool is empty.
func SpecOfTemplateVersion(v template.Version, full bool, pool fleet.PoolID) fleet.VMSpec {
	spec := vmcopy.WithoutIdentity(v.Spec)
	for i, d := range v.Spec.Disks {
		n := &spec.Disks[i]
		n.ImageID, n.VersionID, n.Overlay = d.ImageID, d.VersionID, !full
		if pool != "" {
			n.PoolID = pool
		}
	}
	return spec
}

// withoutOtherProjectsGroups returns the NICs without security groups of other projects. A template may come from
// another project.
func (c *Control) withoutOtherProjectsGroups(ctx context.Context, project fleet.ProjectID, nics []fleet.NIC) ([]fleet.NIC, error) {
	var groups []fleet.SecurityGroupID
	for _, n := range nics {
		groups = append(groups, n.SecurityGroups...)
	}
	usable, err := assign.UsableSecurityGroups(ctx, c.store.Queries, project, groups)
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]fleet.NIC, len(nics))
	for i, n := range nics {
		groups := n.SecurityGroups
		n.SecurityGroups = nil
		for _, id := range groups {
			if usable[id] {
				n.SecurityGroups = append(n.SecurityGroups, id)
			}
		}
		out[i] = n
	}
	return out, nil
}

func (c *Control) planClone(ctx context.Context, a fleet.Actor, in *CreateVM, from *plannedSource) error {
	var checks fleet.Checks
	vm, err := store.GetVM(ctx, c.store.Queries, a, in.From.VMID)
	if fleet.CodeOf(err) == fleet.NotFound || !fleet.IsID(string(in.From.VMID)) {
		checks.Add("from.vmId", "There is no such VM.")
		return checks.Err()
	}
	if err != nil {
		return err
	}
	if err := policy.Check(a, policy.VMChange, vm.ProjectID); err != nil {
		return err
	}
	from.vm, from.snapshotID = &vm, in.From.SnapshotID
	disks, source, err := from.disksToCopy(ctx, c.store.Queries, vm)
	if err != nil {
		return err
	}
	if from.disks = disks; len(disks) > 0 {
		if in.HostID != "" && in.HostID != vm.HostID {
			checks.Add("hostId", "Disks are copied on the host of the VM. Make the clone there, and move it afterwards.")
			return checks.Err()
		}
		in.HostID = vm.HostID
	}
	if isSpecEmpty(in.Spec) {
		in.Spec = CloneSpec(vm, in.From.PoolID, disks)
	}
	if len(in.Spec.Disks) != len(disks) {
		checks.Add("spec.disks", "%s has %d disks, and each is copied. Name the pool of each copy, or leave the spec out.", source, len(disks))
		return checks.Err()
	}
	copies := CloneSpec(vm, "", disks).Disks
	for i, d := range in.Spec.Disks {
		if d.PoolID != "" {
			copies[i].PoolID = d.PoolID
		}
		if d.Image != nil || d.ImageID != "" || d.Existing {
			checks.Add(fmt.Sprintf("spec.disks[%d].image", i), "This disk is a copy of disk %d of %s and cannot have another source.", i+1, vm.Name)
		}
		if d.Overlay {
			checks.Add(fmt.Sprintf("spec.disks[%d].overlay", i), "A clone of a VM is a full copy, because the VM continues to write to its disk. For linked clones, make a template of the VM.")
		}
	}
	in.Spec.Disks, from.auditDetail = copies, ", a clone of "+source
	return checks.Err()
}

// disksToCopy returns the disks of the source VM or of its snapshot, and a description of the source. It refuses if
// they cannot be copied now.
func (p plannedSource) disksToCopy(ctx context.Context, q *db.Queries, vm fleet.VMView) (disks []fleet.Disk, source string, err error) {
	if p.snapshotID == "" {
		return vm.Spec.Disks, vm.Name, conflictWithPrefix(vm.Name + " cannot be cloned now: ")(vmcopy.AllowsClone(vm))
	}
	s, err := findSnapshot(vm, p.snapshotID)
	if err != nil {
		return nil, "", err
	}
	busy, err := q.SnapshotWork(ctx, fleet.SubjectVM(vm.ID))
	if err != nil {
		return nil, "", err
	}
	source = fmt.Sprintf("the snapshot %s of %s", s.Name, vm.Name)
	return vm.DisksInSnapshot(s), source, conflictWithPrefix("No VM is made from " + source + " now: ")(vm.AllowsVMFromSnapshot(s, busy))
}

func conflictWithPrefix(prefix string) func(ok bool, why string) error {
	return func(ok bool, why string) error {
		if ok {
			return nil
		}
		return fleet.Errorf(fleet.Conflict, "%s%s", prefix, why)
	}
}

// CloneSpec returns the spec of a clone of the VM with copies of the given disks. The copies are in the given pool, or
// in the disks' own pools if pool is empty.
func CloneSpec(vm fleet.VMView, pool fleet.PoolID, disks []fleet.Disk) fleet.VMSpec {
	of := vm.Spec
	of.Disks = disks
	spec := vmcopy.WithoutIdentity(of)
	for i, d := range disks {
		spec.Disks[i].SizeBytes = vm.DiskBytes(d)
		if pool != "" {
			spec.Disks[i].PoolID = pool
		}
	}
	return spec
}

// sourcePools returns the pools that contain the source VM's disks or the appliance file.
func (p plannedSource) sourcePools() []fleet.PoolID {
	switch {
	case p.file != nil:
		return []fleet.PoolID{p.file.PoolID}
	case p.vm == nil:
		return nil
	}
	return p.vm.Spec.Pools()
}

// lockSourceVM locks the VM whose disks are copied, and refuses if it changed after planSource read it. The VM's pools
// must be locked.
func (p *plannedSource) lockSourceVM(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	if p.file != nil {
		return p.lockAppliance(ctx, q)
	}
	if p.vm == nil {
		return nil
	}
	vm, err := store.LockVM(ctx, q, a, p.vm.ID, policy.VMChange)
	if err != nil {
		return err
	}
	disks, _, err := p.disksToCopy(ctx, q, vm)
	if err != nil {
		return err
	}
	if vm.Generation != p.vm.Generation || vm.HostID != p.vm.HostID {
		return fleet.Errorf(fleet.Conflict, "The VM %s was changed meanwhile. Check the VM and try again.", vm.Name)
	}
	p.vm = &vm // the VM may have started after planSource read it
	for i, d := range disks {
		spec, err := storage.ReadPoolSpec(ctx, q, d.PoolID)
		switch {
		case err != nil:
			return err
		case !spec.Kind.Info().FilePool:
			return fleet.Errorf(fleet.Conflict, "Disk %d of %s is in a block pool, from which no disk can be copied. Move the disk to a file pool first.", i+1, vm.Name)
		}
		if err := checkDiskIdle(ctx, q, vm, d.Ref()); err != nil {
			return err
		}
	}
	return nil
}

// countSources returns how many of the fields TemplateID, VMID and Appliance are set.
func (f VMSource) countSources() (n int) {
	for _, named := range []bool{f.TemplateID != "", f.VMID != "", f.Appliance != nil} {
		if named {
			n++
		}
	}
	return n
}

// CloneName proposes an unused name for a clone of the VM; empty: all candidates are in use.
func (c *Control) CloneName(ctx context.Context, a fleet.Actor, id fleet.VMID) (string, error) {
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return "", err
	}
	names := fleet.ProposeCloneNames(vm.Name)
	copied, err := c.store.NamesInUse(ctx, db.NamesInUseParams{ProjectID: string(vm.ProjectID), Names: names})
	if err != nil {
		return "", store.UserError(err)
	}
	for _, name := range names {
		if !slices.Contains(copied, name) {
			return name, nil
		}
	}
	return "", nil
}
