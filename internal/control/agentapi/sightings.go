package agentapi

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// maxMissingMarks is the maximum number of ownership marks in one response. An ownership mark is a secret in the
// metadata of a VM's domain. After the agent has written the marks it reports again, and the next response contains
// further marks.
const maxMissingMarks = 256

// classifiedDomains are a host's domains that are not VMs of the host, and the missing ownership marks of the host's
// VMs.
type classifiedDomains struct {
	unmanaged     []fleet.DiscoveredVM  // unmanaged domains: shown, never changed
	otherHostsVMs []otherHostsVM        // domains in unmanaged with the UUID of another host's VM
	missingMarks  map[fleet.VMID]string // ownership marks that the host's own VMs lack
}

// otherHostsVM is a host's report on a domain with the UUID of another host's VM.
type otherHostsVM struct {
	ID         fleet.VMID  `json:"id"`
	Power      fleet.Power `json:"power"`
	Generation int64       `json:"generation"`
	Proven     bool        `json:"proven"`
}

// classifyDomains finds the unmanaged domains of a host, the domains of other hosts' VMs, and missing ownership marks.
// A domain with Quantix metadata that is not a VM of this host counts as unmanaged.
func classifyDomains(ctx context.Context, q *db.Queries, host fleet.HostID, s wire.State) (d classifiedDomains, err error) {
	type domain struct {
		ID    fleet.VMID `json:"id"`
		Proof string     `json:"proof,omitempty"`
	}
	var all []domain
	vms := map[fleet.VMID]wire.VMReport{}
	for _, vm := range s.VMs {
		if vm.Status.Power != fleet.Absent {
			all, vms[vm.ID] = append(all, domain{vm.ID, vm.Proof}), vm
		}
	}
	power := map[fleet.VMID]fleet.Power{}
	for _, f := range s.Discovered {
		all, power[f.ID] = append(all, domain{ID: f.ID}), f.Status.Power
	}
	d.unmanaged = s.Discovered
	if len(all) == 0 {
		return d, nil
	}
	foreign, err := q.StrangeDomains(ctx, db.StrangeDomainsParams{HostID: host, Domains: mustJSON(all)})
	for _, r := range foreign {
		vm, stamped := vms[fleet.VMID(r.ID)]
		switch {
		case r.Mine && stamped && len(d.missingMarks) < maxMissingMarks:
			if d.missingMarks == nil {
				d.missingMarks = map[fleet.VMID]string{}
			}
			d.missingMarks[vm.ID] = r.Mark
		case r.Mine && r.Adopting && !stamped: // the VM's first vm.apply marks the domain
			d.unmanaged = slices.DeleteFunc(slices.Clone(d.unmanaged), func(f fleet.DiscoveredVM) bool { return string(f.ID) == r.ID })
		case r.Mine:
		case stamped:
			d.unmanaged = append(d.unmanaged, fleet.DiscoveredVM{ID: vm.ID, Name: vm.Name, Status: vm.Status})
			if r.Known {
				d.otherHostsVMs = append(d.otherHostsVMs, otherHostsVM{vm.ID, vm.Status.Power, vm.Generation, r.Proven})
			}
		case r.Known:
			d.otherHostsVMs = append(d.otherHostsVMs, otherHostsVM{ID: fleet.VMID(r.ID), Power: power[fleet.VMID(r.ID)]})
		}
	}
	return d, err
}

// writeReportsOfOtherHostsVMs replaces the host's stored reports on other hosts' VMs. Unchanged rows are not written.
func writeReportsOfOtherHostsVMs(ctx context.Context, q *db.Queries, host fleet.HostID, seen []otherHostsVM) error {
	ids := make([]string, len(seen))
	for i, s := range seen {
		ids[i] = string(s.ID)
	}
	if err := q.DropSightings(ctx, db.DropSightingsParams{HostID: host, Ids: ids}); err != nil || len(seen) == 0 {
		return err
	}
	return q.SightVMs(ctx, db.SightVMsParams{HostID: host, Seen: mustJSON(seen)})
}
