package drift

import (
	"cmp"

	"quantix/internal/fleet"
)

// PoolSource is the kind and the location of a pool's storage, as a host's definition has them.
type PoolSource struct {
	Kind   string // libvirt's type of the pool
	Path   string // the directory or mount point
	Server string
	Export string // directory or name on the server
	Device string
}

// poolFields are the fields of pools, in the order of pages.
var poolFields = []struct {
	name, label string
	text        func(PoolSource) string
}{
	{"kind", "Kind", func(s PoolSource) string { return s.Kind }},
	{"path", "Path", func(s PoolSource) string { return s.Path }},
	{"server", "Server", func(s PoolSource) string { return s.Server }},
	{"export", "Source", func(s PoolSource) string { return s.Export }},
	{"device", "Device", func(s PoolSource) string { return s.Device }},
}

// OfPool lists the fields that differ between a pool's definition and the applied one.
func OfPool(applied, actual PoolSource) []fleet.Drift {
	var out []fleet.Drift
	for _, f := range poolFields {
		if f.text(applied) != f.text(actual) {
			out = append(out, fleet.Drift{Field: f.name, Applied: cmp.Or(f.text(applied), "none"), Actual: cmp.Or(f.text(actual), "none")})
		}
	}
	return out
}

// Label returns the label of a pool's or network's field.
func Label(field string) string {
	if field == Autostart {
		return "Starts with the host"
	}
	for _, f := range poolFields {
		if f.name == field {
			return f.label
		}
	}
	if f := networkField(field); f != nil {
		return f.Label
	}
	return field
}
