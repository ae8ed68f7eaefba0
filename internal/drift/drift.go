// Package drift has the fields of pools and networks that can differ between a host's definition and the applied spec.
// Agents find drift with it, and the portal shows, accepts and ignores drift with it. The fields of VMs are
// fleet.VMFields.
package drift

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Find returns the drift of the field, or nil.
func Find(all []fleet.Drift, field string) *fleet.Drift {
	if i := slices.IndexFunc(all, func(d fleet.Drift) bool { return d.Field == field }); i >= 0 {
		return &all[i]
	}
	return nil
}

// MarkIgnored returns the drift of a report, with Ignored set where the list of ignored drift has the same field and
// value. A report's own Ignored has no effect.
func MarkIgnored(reported, ignored []fleet.Drift) []fleet.Drift {
	out := slices.Clone(reported)
	for i, d := range out {
		was := Find(ignored, d.Field)
		out[i].Ignored = was != nil && was.Actual == d.Actual
	}
	return out
}

// Fields lists the fields of the drift.
func Fields(all []fleet.Drift) []string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.Field
	}
	return out
}

// Open returns the drift that nobody ignores.
func Open(all []fleet.Drift) []fleet.Drift {
	return slices.DeleteFunc(slices.Clone(all), func(d fleet.Drift) bool { return d.Ignored })
}

// Ignore adds the reported drift of some fields to the ignored drift. seen contains the fields, each with the value that
// the user saw, or with an empty value that is not compared. The error is a Conflict if the host reports another value
// or no drift.
func Ignore(ignored, reported []fleet.Drift, seen map[string]string) ([]fleet.Drift, error) {
	if len(seen) == 0 {
		return nil, noFieldError()
	}
	out := Forget(ignored, slices.Collect(maps.Keys(seen)))
	for field, actual := range seen {
		d := Find(reported, field)
		if d == nil {
			return nil, fleet.Errorf(fleet.Conflict, "The host reports no drift of %s. Reload the page.", field)
		}
		if actual != "" && actual != d.Actual {
			return nil, fleet.Errorf(fleet.Conflict, "The value of %s was changed on the host again meanwhile. Reload the page and check the new changes.", field)
		}
		out = append(out, fleet.Drift{Field: d.Field, Applied: d.Applied, Actual: d.Actual})
	}
	slices.SortFunc(out, func(a, b fleet.Drift) int { return strings.Compare(a.Field, b.Field) })
	return out, nil
}

// Forget returns the ignored drift without that of the fields.
func Forget(ignored []fleet.Drift, fields []string) []fleet.Drift {
	return slices.DeleteFunc(append([]fleet.Drift{}, ignored...), func(d fleet.Drift) bool { return slices.Contains(fields, d.Field) })
}

// CheckFields refuses an empty list of fields.
func CheckFields(fields []string) error {
	if len(fields) == 0 {
		return noFieldError()
	}
	return nil
}

func noFieldError() error {
	var checks fleet.Checks
	checks.Add("fields", "Name at least one field with drift.")
	return checks.Err()
}

// mustMarshal encodes a value of a spec as JSON. It panics on an error, which plain values cannot cause.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
