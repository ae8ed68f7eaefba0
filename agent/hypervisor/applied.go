package hypervisor

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// AppliedRecord is the spec last applied to a VM on its host. A backend stores it in the domain's metadata. If a new spec
// differs from Applied, a user changed the spec. If the definition differs from Applied, somebody edited the definition
// on the host.
type AppliedRecord struct {
	Name   string `json:"name"`   // the VM's name
	Domain string `json:"domain"` // the domain's name, chosen by DomainNames
	// the domain's former name, which a running guest keeps until it is off
	FormerDomain string                       `json:"was,omitempty"`
	Spec         fleet.VMSpec                 `json:"spec"` // without its power state
	Pools        map[fleet.PoolID]AppliedPool `json:"pools,omitempty"`
	// SpecHash is the portal's hash of the spec: see wire.Work.
	SpecHash string `json:"specHash,omitempty"`
	// Adopted is set for a domain that Quantix adopted. Its disks and NICs in the spec have no alias of Quantix before
	// the first edit.
	Adopted bool `json:"adopted,omitempty"`
	// Verbatim has the DefinedSpec.VerbatimValues at the adoption. They are no drift.
	Verbatim map[string]string `json:"verbatim,omitempty"`
	// Removed has the paths of disks and the MAC addresses of NICs that edits removed from the definition of an adopted
	// domain while its guest ran, in the run RemovedIn. That run may still have them. A later run has such a device only
	// if somebody put it back.
	Removed   []string `json:"removed,omitempty"`
	RemovedIn string   `json:"removedIn,omitempty"`
}

// AppliedPool is a pool as the host knew it when the spec was applied.
type AppliedPool struct {
	Name string          `json:"name"`
	Path string          `json:"path"`
	Spec *fleet.PoolSpec `json:"spec,omitempty"` // block pools only
}

// DefinedSpec is a domain's definition, expressed as a spec.
type DefinedSpec struct {
	Domain        string            // the domain's name
	Spec          fleet.VMSpec      // only disks that were applied, and only NICs that were applied or created by Quantix
	Inexpressible map[string]string // by field of the spec: a description of a value that no spec can express
}

// NewAppliedRecord returns the record to store once the job is applied under the domain name. A pool that the job does
// not have is taken from old.
func NewAppliedRecord(in ApplyWork, domain, was string, old map[fleet.PoolID]AppliedPool) AppliedRecord {
	out := AppliedRecord{Name: in.VM.Name, Domain: domain, FormerDomain: was, Spec: in.VM.Spec, Pools: map[fleet.PoolID]AppliedPool{}, SpecHash: in.SpecHash}
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
	if !p.Spec.Kind.Info().FilePool {
		out.Spec = &p.Spec
	}
	return out
}

// WithAdoption returns the record with the adoption of the record before. Verbatim values of the fields that the edit
// sets are dropped.
func (a AppliedRecord) WithAdoption(before AppliedRecord, edit DefinitionEdit) AppliedRecord {
	a.Adopted, a.Verbatim = before.Adopted, maps.Clone(before.Verbatim)
	maps.DeleteFunc(a.Verbatim, func(field, _ string) bool { return edit.SetsField(field) })
	return a
}

// InRun returns the record for a run of the guest; empty: the guest is off, or the run is unknown. Devices that edits
// removed in another run are dropped.
func (a AppliedRecord) InRun(run string) AppliedRecord {
	if run == "" || run != a.RemovedIn {
		a.Removed, a.RemovedIn = nil, ""
	}
	return a
}

// WithRemoved returns the record with the devices that edits removed in the run; empty: the guest is off, or the run is
// unknown.
func (a AppliedRecord) WithRemoved(devices []string, run string) AppliedRecord {
	if a.Removed, a.RemovedIn = nil, ""; run != "" && len(devices) > 0 {
		a.Removed, a.RemovedIn = slices.Compact(slices.Sorted(slices.Values(devices))), run
	}
	return a
}

// isVerbatim reports whether the definition still has the field's value that was kept verbatim at the adoption.
func (a AppliedRecord) isVerbatim(is DefinedSpec, f *fleet.VMField) bool {
	kept := a.Verbatim[f.Name]
	return kept != "" && kept == cmp.Or(is.Inexpressible[f.Name], f.Words(is.Spec))
}

// VerbatimValues returns, by field, the values of the definition that no valid spec has, as texts.
func (d DefinedSpec) VerbatimValues() map[string]string {
	out := maps.Clone(d.Inexpressible)
	for i := range fleet.VMFields {
		f := &fleet.VMFields[i]
		invalid := f.ValueError(d.Spec) != ""
		switch f.Name {
		case "disks":
			invalid = slices.ContainsFunc(d.Spec.Disks, hasInvalidField(fleet.DiskFields))
		case "nics":
			invalid = slices.ContainsFunc(d.Spec.NICs, hasInvalidField(fleet.NICFields))
		}
		if invalid && out[f.Name] == "" {
			out[f.Name] = f.Words(d.Spec)
		}
	}
	return out
}

func hasInvalidField[T any](fields []fleet.Field[T]) func(T) bool {
	return func(v T) bool {
		return slices.ContainsFunc(fields, func(f fleet.Field[T]) bool { return f.ValueError(v) != "" })
	}
}

// AssumeAppliedRecord returns a substitute for the last applied spec, for a definition without one or a restored portal
// without a record of it. The substitute is the job's spec without the disks that isNew reports as not created yet. So
// ApplyVM overwrites no edit made on the host; such an edit shows as drift.
func AssumeAppliedRecord(in ApplyWork, domain, was string, isNew func(fleet.Disk) bool) AppliedRecord {
	out := NewAppliedRecord(in, domain, was, nil)
	out.Spec.Disks = slices.DeleteFunc(slices.Clone(out.Spec.Disks), isNew)
	return out
}

// DefinitionEdit lists the changes to a definition. Everything else in the definition stays.
type DefinitionEdit struct {
	SetName            bool             // set the wanted name
	Fields             []*fleet.VMField // fields to set; the values of merged lists are in mergedLists
	Disks, RemoveDisks []fleet.Disk     // disks to add, and disks to remove
	// disks that the spec has grown since it was last applied; a disk that is already larger on the host keeps its size
	GrowDisks           []fleet.Disk
	NICs, RemoveNICs    []fleet.NIC                // NICs to add, and NICs to remove
	SetDisks            []DeviceChange[fleet.Disk] // changes of disks that the definition has
	SetNICs             []DeviceChange[fleet.NIC]
	mergedLists         fleet.VMSpec // values of fields that are merged lists
	RemoveUnwantedDisks bool         // remove disks that Quantix created and the spec does not name
	RemoveUnwantedNICs  bool         // the same for NICs
}

// DeviceChange is a device of the definition, and the fields to set to the values of Device.
type DeviceChange[T any] struct {
	Device T
	Fields []fleet.Field[T]
}

// SetsField reports whether the change sets the device's field with this name.
func (s DeviceChange[T]) SetsField(field string) bool {
	return slices.ContainsFunc(s.Fields, func(f fleet.Field[T]) bool { return f.Name == field })
}

// planDeviceChanges returns the changes to devices that the definition already has.
func planDeviceChanges[T any](applied, defined, wanted []T, one func(a, b T) bool, fields []fleet.Field[T], reapply bool) []DeviceChange[T] {
	find := func(all []T, v T) (T, bool) {
		i := slices.IndexFunc(all, func(o T) bool { return one(o, v) })
		if i < 0 {
			var none T
			return none, false
		}
		return all[i], true
	}
	var out []DeviceChange[T]
	for _, w := range wanted {
		here, ok := find(defined, w)
		if !ok {
			continue
		}
		set, before := DeviceChange[T]{Device: w}, w
		if o, ok := find(applied, w); ok {
			before = o
		}
		for _, f := range fields {
			if !f.Same(here, w) && (reapply || !f.Same(before, w)) {
				set.Fields = append(set.Fields, f)
			}
		}
		if len(set.Fields) > 0 {
			out = append(out, set)
		}
	}
	return out
}

// SetsField reports whether the edit sets the field with this name.
func (e DefinitionEdit) SetsField(field string) bool {
	return slices.ContainsFunc(e.Fields, func(f *fleet.VMField) bool { return f.Name == field })
}

// WithAllFields returns the edit with all fields and devices of the spec. It is for a retry of a job that already wrote
// the definition, because it is unknown which changes the running guest has.
func (e DefinitionEdit) WithAllFields(s fleet.VMSpec) DefinitionEdit {
	e.Fields, e.SetDisks, e.SetNICs = nil, nil, nil
	for i := range fleet.VMFields {
		e.Fields = append(e.Fields, &fleet.VMFields[i])
	}
	for _, d := range s.Disks {
		e.SetDisks = append(e.SetDisks, DeviceChange[fleet.Disk]{d, fleet.DiskFields})
	}
	for _, n := range s.NICs {
		e.SetNICs = append(e.SetNICs, DeviceChange[fleet.NIC]{n, fleet.NICFields})
	}
	return e
}

// WithMergedLists returns the spec with its list fields replaced by the merged lists. A merged list has the users' changes
// and otherwise the definition's values.
func (e DefinitionEdit) WithMergedLists(s fleet.VMSpec) fleet.VMSpec {
	for _, f := range e.Fields {
		if f.Merge != nil {
			f.Copy(&s, e.mergedLists)
		}
	}
	return s
}

// PlanEdit does a three-way comparison of the applied, the defined and the wanted spec. A difference between the
// applied and the wanted spec is a user's change, and PlanEdit returns only such changes. For the fields that reapply
// accepts, PlanEdit returns every difference between the defined and the wanted spec.
func PlanEdit(applied AppliedRecord, defined DefinedSpec, wanted fleet.VM, reapply func(field string) bool) DefinitionEdit {
	disks, nics := reapply("disks"), reapply("nics")
	out := DefinitionEdit{
		SetName:             applied.Name != wanted.Name || reapply("name") && applied.isRenamedOnHost(defined),
		RemoveUnwantedDisks: disks, RemoveUnwantedNICs: nics, Fields: make([]*fleet.VMField, 0, len(fleet.VMFields)),
	}
	for i := range fleet.VMFields {
		f := &fleet.VMFields[i]
		here := defined.Inexpressible[f.Name] == "" && f.SameValue(&defined.Spec, &wanted.Spec)
		kept := !reapply(f.Name) || applied.isVerbatim(defined, f)
		if here || kept && f.SameValue(&applied.Spec, &wanted.Spec) {
			continue
		}
		if out.Fields = append(out.Fields, f); f.Merge == nil {
			continue
		}
		if f.Copy(&out.mergedLists, wanted.Spec); !reapply(f.Name) {
			f.Merge(&out.mergedLists, applied.Spec, defined.Spec)
		}
	}
	for _, d := range wanted.Spec.Disks {
		if disks || specHasDisk(defined.Spec, d) || !specHasDisk(applied.Spec, d) {
			out.Disks = append(out.Disks, d)
		}
	}
	for _, d := range wanted.Spec.Disks {
		if slices.ContainsFunc(applied.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() && d.SizeBytes > o.SizeBytes }) {
			out.GrowDisks = append(out.GrowDisks, d)
		}
	}
	for _, d := range applied.Spec.Disks {
		if !specHasDisk(wanted.Spec, d) {
			out.RemoveDisks = append(out.RemoveDisks, d)
		}
	}
	for _, n := range wanted.Spec.NICs {
		if nics || !slices.ContainsFunc(applied.Spec.NICs, func(o fleet.NIC) bool { return isSameNIC(o, n) }) {
			out.NICs = append(out.NICs, n)
		}
	}
	for _, n := range applied.Spec.NICs {
		if !slices.ContainsFunc(wanted.Spec.NICs, func(o fleet.NIC) bool { return strings.EqualFold(o.MAC, n.MAC) }) {
			out.RemoveNICs = append(out.RemoveNICs, n)
		}
	}
	out.SetDisks = planDeviceChanges(applied.Spec.Disks, defined.Spec.Disks, wanted.Spec.Disks, func(a, b fleet.Disk) bool { return a.Ref() == b.Ref() }, fleet.DiskFields, disks)
	out.SetNICs = planDeviceChanges(applied.Spec.NICs, defined.Spec.NICs, wanted.Spec.NICs, func(a, b fleet.NIC) bool { return strings.EqualFold(a.MAC, b.MAC) }, fleet.NICFields, nics)
	return out
}

// isRenamedOnHost reports whether somebody gave the domain a name other than the VM's name and the name chosen for the
// domain.
func (a AppliedRecord) isRenamedOnHost(is DefinedSpec) bool {
	return is.Domain != a.Domain && is.Domain != a.Name && is.Domain != a.FormerDomain
}

// PendingDomainName returns the name that the domain gets once its guest is off. It is empty if the domain already has
// its final name.
func (a AppliedRecord) PendingDomainName(domain string) string {
	if a.FormerDomain != "" && a.FormerDomain == domain && a.Domain != domain {
		return a.Domain
	}
	return ""
}

// Drift lists the differences between the definition and the applied spec.
func (a AppliedRecord) Drift(is DefinedSpec) []fleet.Drift {
	var out []fleet.Drift
	if a.isRenamedOnHost(is) {
		d := fleet.Drift{Field: "name", Applied: a.Domain, Actual: is.Domain}
		var c fleet.Checks
		if fleet.CheckName(&c, "name", is.Domain); c.Err() == nil {
			d.Take = mustMarshal(is.Domain)
		}
		out = append(out, d)
	}
	for i := range fleet.VMFields {
		f := &fleet.VMFields[i]
		odd := is.Inexpressible[f.Name]
		if a.isVerbatim(is, f) || odd == "" && f.SameValue(&a.Spec, &is.Spec) {
			continue
		}
		d := fleet.Drift{Field: f.Name, Applied: f.Words(a.Spec), Actual: f.Words(is.Spec)}
		if odd != "" {
			d.Actual = odd
		} else {
			d.Take = mustMarshal(f.Value(is.Spec))
		}
		out = append(out, d)
	}
	return out
}

func isSameNIC(a, b fleet.NIC) bool {
	return strings.EqualFold(a.MAC, b.MAC) && a.Network == b.Network && a.Bridge == b.Bridge && a.PortGroup == b.PortGroup && a.HasSameFilter(b)
}

func specHasDisk(s fleet.VMSpec, d fleet.Disk) bool {
	return slices.ContainsFunc(s.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
}

// mustMarshal encodes a value of a spec as JSON. It panics on an error, which plain values cannot cause.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
