// Package metric holds the values that a host measures, and their JSON in a report.
package metric

import (
	"encoding/json"

	"quantix/internal/fleet"
)

// Samples are the values that a host measured at one time. Their JSON is decoded and encoded without reflection, because
// each report of a host has about a thousand values.
type Samples struct {
	// Seconds is the length of the interval of the rates: the time since the host's previous samples.
	Seconds float64 `json:"seconds"`
	Host    Table   `json:"host,omitzero"` // one object with an empty ID
	VMs     Table   `json:"vms,omitzero"`
	Pools   Table   `json:"pools,omitzero"`
	// Refused says why the portal refused the values, which are missing then. The rest of a report stays valid.
	Refused string `json:"-"`
}

// Table holds the values of objects of one type.
type Table struct {
	IDs []string `json:"ids,omitempty"`
	// Values are the objects' values by the metric's name, in the order of IDs.
	Values map[string][]fleet.MetricValue `json:"values,omitempty"`
}

// plainSamples is Samples with the JSON that package json derives from the fields.
type plainSamples Samples

// UnmarshalJSON refuses values that cannot be decoded, without an error.
func (s *Samples) UnmarshalJSON(text []byte) error {
	if in, ok := decodeSamples(text); ok {
		*s = in
		return nil
	}
	var in plainSamples
	if err := json.Unmarshal(text, &in); err != nil {
		in = plainSamples{Refused: "The values cannot be decoded: " + err.Error() + "."}
	}
	*s = Samples(in)
	return nil
}

// MarshalJSON writes the tables with their metrics in alphabetical order.
func (s Samples) MarshalJSON() ([]byte, error) {
	if out, ok := encodeSamples(s); ok {
		return out, nil
	}
	return json.Marshal(plainSamples(s))
}
