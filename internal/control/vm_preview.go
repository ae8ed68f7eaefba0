package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/network"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// maxPreviewedHosts limits the hosts in a preview.
const maxPreviewedHosts = 40

// Preview is the predicted placement of a VM.
type Preview struct {
	Placed bool              `json:"placed"`          // whether some host can run the VM
	Host   string            `json:"host,omitempty"`  // the chosen host's name; only for actors who see hosts
	Hosts  []PreviewedHost   `json:"hosts,omitempty"` // the other hosts with reasons; only for actors who see hosts
	More   int               `json:"more,omitempty"`  // number of further hosts
	Why    string            `json:"why,omitempty"`   // why no host can run it, without host names
	Spec   fleet.VMSpec      `json:"-"`               // the completed spec
	Images map[int]string    `json:"-"`               // image names, by disk index
	Start  bool              `json:"-"`
	Labels map[string]string `json:"-"`
}

// PreviewedHost is a host that placement would not choose.
type PreviewedHost struct {
	Name  string `json:"name"`
	Could bool   `json:"could"` // suitable, but another host is better
	Why   string `json:"why"`
}

// PreviewVM predicts the host that CreateVM with the same input would choose, with reasons against the other hosts. It
// returns the same errors as CreateVM, except if no host is suitable. It reserves nothing.
func (c *Control) PreviewVM(ctx context.Context, a fleet.Actor, in CreateVM) (out Preview, err error) {
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return out, err
	}
	id := fleet.NewID[fleet.VMID]()
	in, from, err := c.planSource(ctx, a, id, in)
	if err == nil {
		err = in.completeInput(id)
	}
	if err != nil {
		return out, err
	}
	plans := from.images
	out = Preview{Spec: in.Spec, Images: map[int]string{}, Start: in.Start, Labels: in.Labels}
	for _, p := range plans {
		out.Images[p.disk] = p.image.Name
	}
	var hosts []placement.Host
	err = c.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
			return store.NotFoundError(err, "project")
		}
		if err := placing.ResolveCPUModel(ctx, q, &in.Spec); err != nil {
			return err
		}
		if err := checkReservedFields(a, fleet.VMSpec{}, in.Spec); err != nil {
			return err
		}
		if _, err := placing.MergeRules(a, nil, in.Spec.Rules); err != nil {
			return err
		}
		spec := in.Spec
		spec.NICs = slices.Clone(in.Spec.NICs)
		if err := network.CheckNICs(ctx, q, a, in.ProjectID, spec.NICs); err != nil {
			return err
		}
		if err := checkPoolsForDisks(ctx, q, a, in.ProjectID, spec.Disks); err != nil {
			return err
		}
		if err := placing.ResolveDeviceClasses(ctx, q, a, in.ProjectID, fleet.VMSpec{}, &spec); err != nil {
			return err
		}
		resolved := in // with the IDs of its networks
		resolved.Spec = spec
		if hosts, err = resolved.candidates("", append(poolsWithCopies(plans), from.sourcePools()...)).Read(ctx, q, a); err != nil {
			return err
		}
		if err := placing.AddPlacementRules(ctx, q, in.placementMeta(), spec.Rules, hosts); err != nil {
			return err
		}
		for i := range hosts {
			hosts[i].Overcommit = in.Overcommit && policy.May(a, policy.InfraChange, "")
			addImageSources(plans, spec, &hosts[i])
		}
		return checkVolumesPublished(ctx, q, a, in.ProjectID, sourceVolumes(spec))
	})
	if err != nil {
		return Preview{}, err
	}
	out.chooseHost(in, hosts, store.SeesHosts(a))
	return out, nil
}

// chooseHost sets the chosen host and the reasons against the others.
func (p *Preview) chooseHost(in CreateVM, hosts []placement.Host, seesHosts bool) {
	choice := placement.Place(in.Spec, hosts)
	chosen := choice.Host
	if in.HostID != "" {
		chosen = nil
		for i, h := range hosts {
			if h.ID == in.HostID && !slices.ContainsFunc(choice.Refused, func(r placement.Refusal) bool { return r.HostID == h.ID }) {
				chosen = &hosts[i]
			}
		}
	}
	p.Placed = chosen != nil
	switch {
	case p.Placed:
		p.Spec.CPU.Model = cmp.Or(p.Spec.CPU.Model, chosen.CPUModel)
	case in.HostID != "":
		p.Why = "The host that was chosen cannot take this VM."
	default:
		p.Why = choice.RefusalTextWithoutHosts(10)
	}
	if !seesHosts {
		return
	}
	for _, h := range hosts {
		if chosen != nil && h.ID == chosen.ID {
			p.Host = h.Name
			continue
		}
		one := PreviewedHost{Name: h.Name, Could: true, Why: "This host has enough resources, but the chosen host has more free memory."}
		if h.Cluster.Spec.Placement == fleet.PlacementPack {
			one.Why = "This host has enough resources, but another host has less free memory that still fits."
		}
		switch strains := h.BrokenPreferredRules(in.Spec.Rules); {
		case in.HostID != "":
			one.Why = "It could take the VM."
		case chosen != nil && len(strains) > len(chosen.BrokenPreferredRules(in.Spec.Rules)):
			one.Why = "It could take the VM, which " + strings.Join(strains, ", and ") + "."
		}
		for _, r := range choice.Refused {
			if r.HostID == h.ID {
				one.Could, one.Why = false, r.Message
			}
		}
		p.Hosts = append(p.Hosts, one)
	}
	slices.SortFunc(p.Hosts, func(x, y PreviewedHost) int {
		switch {
		case x.Could && !y.Could:
			return -1
		case y.Could && !x.Could:
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	if len(p.Hosts) > maxPreviewedHosts {
		p.Hosts, p.More = p.Hosts[:maxPreviewedHosts], len(p.Hosts)-maxPreviewedHosts
	}
}
