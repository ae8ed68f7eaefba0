package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Applied is what was last applied to a VM on its host. A backend keeps it in the domain's metadata. Where a new spec differs
// from it, a person wants something else; where the definition differs from it, somebody changed that on the host.
type Applied struct {
	Name   string                       `json:"name"`          // the VM's
	Domain string                       `json:"domain"`        // the domain's, chosen for it: see DomainNames
	Was    string                       `json:"was,omitempty"` // the domain's until its guest is off: no guest is renamed while it runs
	Spec   fleet.VMSpec                 `json:"spec"`          // without its power
	Pools  map[fleet.PoolID]AppliedPool `json:"pools,omitempty"`
	// SpecHash is the portal's of the spec: see wire.Work.
	SpecHash string `json:"specHash,omitempty"`
}

// AppliedPool is a pool as the host knew it then.
type AppliedPool struct {
	Name string          `json:"name"`
	Path string          `json:"path"`
	Spec *fleet.PoolSpec `json:"spec,omitempty"` // of a pool whose volumes are no files
}

// Defined is what a domain's definition says, in the words of a spec.
type Defined struct {
	Domain string            // the domain's name
	Spec   fleet.VMSpec      // of disks those that were applied, of cards those that were or that Quantix made
	Odd    map[string]string // by field of the spec: what it says and no spec can, in words
}

// NewApplied is what is to be kept once vm is applied under that name. old is kept of pools that the order does not bring.
func NewApplied(in Apply, domain, was string, old map[fleet.PoolID]AppliedPool) Applied {
	out := Applied{Name: in.VM.Name, Domain: domain, Was: was, Spec: in.VM.Spec, Pools: map[fleet.PoolID]AppliedPool{}, SpecHash: in.SpecHash}
	out.Spec.Power = ""
	named := map[fleet.PoolID]bool{}
	for _, id := range out.Spec.Pools() {
		named[id] = true
	}
	maps.Copy(out.Pools, old)
	for _, p := range in.Pools {
		out.Pools[p.ID] = appliedPool(p)
	}
	maps.DeleteFunc(out.Pools, func(id fleet.PoolID, _ AppliedPool) bool { return !named[id] })
	return out
}

func appliedPool(p fleet.Pool) AppliedPool {
	out := AppliedPool{Name: p.Name, Path: p.Spec.Path}
	if !p.Spec.Kind.Is().Files {
		out.Spec = &p.Spec
	}
	return out
}

// Assumed is the last applied spec where the definition does not contain one, or where a restored portal has no record of
// it. It is the order's spec without the disks that are not created yet. So nothing that somebody changed on the host is
// overwritten; it shows as drift.
func Assumed(in Apply, domain, was string, fresh func(fleet.Disk) bool) Applied {
	out := NewApplied(in, domain, was, nil)
	out.Spec.Disks = slices.DeleteFunc(slices.Clone(out.Spec.Disks), fresh)
	return out
}

// Edit is what an apply writes into a definition. All else in it stays as it is.
type Edit struct {
	Name             bool              // as wanted
	Fields           []*fleet.VMField  // likewise; of those with elements, see below
	Disks, DropDisks []fleet.Disk      // that it shall have, and shall not
	GrowDisks        []fleet.Disk      // of which people want more than before. What somebody has made larger than that on the host stays so
	NICs, DropNICs   []fleet.NIC       // likewise
	SetDisks         []Set[fleet.Disk] // of those that the definition has
	SetNICs          []Set[fleet.NIC]
	lists            fleet.VMSpec // of lists that are parts, what is to be written
	Strays           bool         // devices that Quantix made and no spec names are to go
}

// Set is a device that the definition has, and what of it is to be as Device has it.
type Set[T any] struct {
	Device T
	Fields []fleet.Field[T]
}

// Has reports whether the field of that name is.
func (s Set[T]) Has(field string) bool {
	return slices.ContainsFunc(s.Fields, func(f fleet.Field[T]) bool { return f.Name == field })
}

// sets are what an edit changes of the devices that the definition has.
func sets[T any](was, is, want []T, one func(a, b T) bool, fields []fleet.Field[T], putBack bool) []Set[T] {
	find := func(all []T, v T) (T, bool) {
		i := slices.IndexFunc(all, func(o T) bool { return one(o, v) })
		if i < 0 {
			var none T
			return none, false
		}
		return all[i], true
	}
	var out []Set[T]
	for _, w := range want {
		here, ok := find(is, w)
		if !ok {
			continue
		}
		set, before := Set[T]{Device: w}, w
		if o, ok := find(was, w); ok {
			before = o
		}
		for _, f := range fields {
			if !f.Same(here, w) && (putBack || !f.Same(before, w)) {
				set.Fields = append(set.Fields, f)
			}
		}
		if len(set.Fields) > 0 {
			out = append(out, set)
		}
	}
	return out
}

// Has reports whether the field of that name is to be as wanted.
func (e Edit) Has(field string) bool {
	return slices.ContainsFunc(e.Fields, func(f *fleet.VMField) bool { return f.Name == field })
}

// Whole is the edit with all that the spec says of what the definition has. Nothing of it is known to be in the guest that runs, where an order was cut off
// after it wrote the definition.
func (e Edit) Whole(s fleet.VMSpec) Edit {
	e.Fields, e.SetDisks, e.SetNICs = nil, nil, nil
	for i := range fleet.VMFields {
		e.Fields = append(e.Fields, &fleet.VMFields[i])
	}
	for _, d := range s.Disks {
		e.SetDisks = append(e.SetDisks, Set[fleet.Disk]{d, fleet.DiskFields})
	}
	for _, n := range s.NICs {
		e.SetNICs = append(e.SetNICs, Set[fleet.NIC]{n, fleet.NICFields})
	}
	return e
}

// Wanted is the spec with its lists as they are to be written: what people changed of them, and all else as it is in the definition.
func (e Edit) Wanted(s fleet.VMSpec) fleet.VMSpec {
	for _, f := range e.Fields {
		if f.Merge != nil {
			f.Copy(&s, e.lists)
		}
	}
	return s
}

// Plan compares three ways: a person's change is what differs between was and want; reapply wants all of it, whatever is.
func Plan(was Applied, is Defined, want fleet.VM, putBack bool) Edit {
	out := Edit{Name: was.Name != want.Name || putBack && was.renamed(is), Strays: putBack, Fields: make([]*fleet.VMField, 0, len(fleet.VMFields))}
	for i := range fleet.VMFields {
		f := &fleet.VMFields[i]
		here := is.Odd[f.Name] == "" && f.Like(&is.Spec, &want.Spec)
		if here || !putBack && f.Like(&was.Spec, &want.Spec) {
			continue
		}
		if out.Fields = append(out.Fields, f); f.Merge == nil {
			continue
		}
		if f.Copy(&out.lists, want.Spec); !putBack {
			f.Merge(&out.lists, was.Spec, is.Spec)
		}
	}
	for _, d := range want.Spec.Disks {
		if putBack || hasDisk(is.Spec, d) || !hasDisk(was.Spec, d) {
			out.Disks = append(out.Disks, d)
		}
	}
	for _, d := range want.Spec.Disks {
		if slices.ContainsFunc(was.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() && d.SizeBytes > o.SizeBytes }) {
			out.GrowDisks = append(out.GrowDisks, d)
		}
	}
	for _, d := range was.Spec.Disks {
		if !hasDisk(want.Spec, d) {
			out.DropDisks = append(out.DropDisks, d)
		}
	}
	for _, n := range want.Spec.NICs {
		if putBack || !slices.ContainsFunc(was.Spec.NICs, func(o fleet.NIC) bool { return sameNIC(o, n) }) {
			out.NICs = append(out.NICs, n)
		}
	}
	for _, n := range was.Spec.NICs {
		if !slices.ContainsFunc(want.Spec.NICs, func(o fleet.NIC) bool { return strings.EqualFold(o.MAC, n.MAC) }) {
			out.DropNICs = append(out.DropNICs, n)
		}
	}
	out.SetDisks = sets(was.Spec.Disks, is.Spec.Disks, want.Spec.Disks, func(a, b fleet.Disk) bool { return a.Ref() == b.Ref() }, fleet.DiskFields, putBack)
	out.SetNICs = sets(was.Spec.NICs, is.Spec.NICs, want.Spec.NICs, func(a, b fleet.NIC) bool { return strings.EqualFold(a.MAC, b.MAC) }, fleet.NICFields, putBack)
	return out
}

// renamed reports whether somebody gave the domain a name that is neither the VM's nor the one chosen for it.
func (a Applied) renamed(is Defined) bool {
	return is.Domain != a.Domain && is.Domain != a.Name && is.Domain != a.Was
}

// Pending is the name that the domain gets when its guest is off; empty: it has its name.
func (a Applied) Pending(domain string) string {
	if a.Was != "" && a.Was == domain && a.Domain != domain {
		return a.Domain
	}
	return ""
}

// Drift is what the definition says else than what was applied.
func (a Applied) Drift(is Defined) []fleet.Drift {
	var out []fleet.Drift
	if a.renamed(is) {
		d := fleet.Drift{Field: "name", Applied: a.Domain, Actual: is.Domain}
		var c fleet.Checks
		if fleet.CheckName(&c, "name", is.Domain); c.Err() == nil {
			d.Take = raw(is.Domain)
		}
		out = append(out, d)
	}
	for _, f := range fleet.VMFields {
		odd := is.Odd[f.Name]
		if odd == "" && f.Like(&a.Spec, &is.Spec) {
			continue
		}
		d := fleet.Drift{Field: f.Name, Applied: f.Words(a.Spec), Actual: f.Words(is.Spec)}
		if odd != "" {
			d.Actual = odd
		} else {
			d.Take = raw(f.Value(is.Spec))
		}
		out = append(out, d)
	}
	return out
}

func sameNIC(a, b fleet.NIC) bool {
	return strings.EqualFold(a.MAC, b.MAC) && a.Network == b.Network && a.Bridge == b.Bridge && a.PortGroup == b.PortGroup && a.SameFilter(b)
}

func hasDisk(s fleet.VMSpec, d fleet.Disk) bool {
	return slices.ContainsFunc(s.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
}

// raw is a plain value of a spec as JSON, which cannot fail.
func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
