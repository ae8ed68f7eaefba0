package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ApplianceFile identifies an appliance file in a pool. A VM can be imported from it.
type ApplianceFile struct {
	PoolID fleet.PoolID `json:"poolId"`
	HostID fleet.HostID `json:"hostId,omitempty" doc:"Host (local pools only); may be empty if only one host has the file"`
	Volume string       `json:"volume"`
}

// GetAppliance returns an importable file with the facts that its host reported.
func (c *Control) GetAppliance(ctx context.Context, a fleet.Actor, of ApplianceFile) (query.VolumeOn, error) {
	v, err := c.VolumeOn(ctx, a, storage.VolumeID{PoolID: of.PoolID, HostID: of.HostID, Volume: of.Volume})
	if err == nil && v.Appliance == nil {
		err = fleet.Errorf(fleet.NotFound, "%s is not an appliance. Choose an OVA archive, or a disk as VMDK, VHDX, VHD or VDI.", of.Volume)
	}
	return v, err
}

// maxAppliances limits the list of appliances.
const maxAppliances = 500

// ListAppliances returns the importable files of all pools, sorted by pool and name.
func (c *Control) ListAppliances(ctx context.Context, a fleet.Actor) ([]query.VolumeOn, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	pools, err := c.store.PoolsWithAppliances(ctx)
	if err != nil {
		return nil, fmt.Errorf("list appliances: %w", err)
	}
	out := []query.VolumeOn{}
	for _, pool := range pools {
		all, err := c.PoolVolumes(ctx, a, fleet.PoolID(pool))
		if fleet.CodeOf(err) == fleet.NotFound {
			continue // deleted in between
		}
		if err != nil {
			return nil, err
		}
		for _, v := range all {
			if v.Appliance != nil && len(out) < maxAppliances {
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// planAppliance fills in the VM's spec from the appliance file. The VM must be on a host that has the file, because
// that host converts the disks.
func (c *Control) planAppliance(ctx context.Context, a fleet.Actor, in *CreateVM, from *plannedSource) error {
	at := *in.From.Appliance
	v, err := c.GetAppliance(ctx, a, at)
	if err != nil {
		return err
	}
	if ok, why := v.VolumeUse().Allows(fleet.ActImport); !ok {
		return fleet.Errorf(fleet.Conflict, "%s: %s", v.Name, why)
	}
	var checks fleet.Checks
	switch i := slices.IndexFunc(v.Hosts, func(h query.HostRef) bool { return h.ID == in.HostID }); {
	case in.HostID != "" && i < 0:
		checks.Add("hostId", "The appliance's disks are converted on a host that has its file. Choose such a host, and move the VM afterwards.")
		return checks.Err()
	case in.HostID == "":
		in.HostID = v.Hosts[0].ID // an online host: v.VolumeUse checked that
	}
	if isSpecEmpty(in.Spec) {
		in.Spec = v.Appliance.Spec(at.PoolID)
		if in.Spec.NICs, err = c.applianceNICs(ctx, a, *in, *v.Appliance, in.Spec.NICs); err != nil {
			return err
		}
		if in.From.PoolID != "" {
			for i := range in.Spec.Disks {
				in.Spec.Disks[i].PoolID = in.From.PoolID
			}
		}
	}
	if len(in.Spec.Disks) != len(v.Appliance.Disks) {
		checks.Add("spec.disks", "%s has %d disks, and each becomes a disk of the VM. Name the pool of each disk, or leave the spec out.", v.Name, len(v.Appliance.Disks))
		return checks.Err()
	}
	in.Spec.Disks = slices.Clone(in.Spec.Disks)
	for i, d := range v.Appliance.Disks {
		disk := &in.Spec.Disks[i]
		if disk.Image != nil || disk.ImageID != "" || disk.Existing {
			checks.Add(fmt.Sprintf("spec.disks[%d].image", i), "This disk is disk %d of %s and cannot have another source.", i+1, v.Name)
		}
		disk.SizeBytes = d.SizeBytes // grown after the conversion
	}
	from.file, from.auditDetail = &v, ", from "+v.Name
	return checks.Err()
}

// lockAppliance refuses if the file changed after planAppliance read it, or has unfinished jobs. The file's pool must
// be locked.
func (p plannedSource) lockAppliance(ctx context.Context, q *db.Queries) error {
	use, err := storage.CurrentVolumeUse(ctx, q, *p.file)
	if err != nil {
		return err
	}
	if ok, why := use.Allows(fleet.ActImport); !ok {
		return fleet.Errorf(fleet.Conflict, "%s: %s", p.file.Name, why)
	}
	return nil
}

// conversionJobs returns the volume jobs that convert the appliance's disks, by disk index of the VM.
func (p plannedSource) conversionJobs(vm fleet.VMView) map[int]fleet.VolumeParams {
	out := map[int]fleet.VolumeParams{}
	for i, d := range p.file.Appliance.Disks {
		if d.Format == "" {
			continue
		}
		order := fleet.VolumeParams{Source: p.file.Name, Member: d.Member, TakesBytes: d.SizeBytes}
		if vm.Spec.Disks[i].PoolID != p.file.PoolID {
			order.SourcePool = p.file.PoolID
		}
		out[i] = order
	}
	return out
}
