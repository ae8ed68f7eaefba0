package wire

import (
	"fmt"

	"quantix/internal/metric"
)

// Bounds of samples.
const (
	maxSampledMetrics = 64
	maxSampledObjects = 4 << 10
	maxSampleSeconds  = 3600
)

// boundSamples enforces the bounds of samples. Samples that violate a bound are refused. Texts are only bounded in their
// length, because the portal stores no ID and no name that it does not know.
func boundSamples(s *metric.Samples) *metric.Samples {
	refuse := func(at, format string, args ...any) *metric.Samples {
		return &metric.Samples{Refused: at + ": " + fmt.Sprintf(format, args...)}
	}
	for _, t := range []struct {
		at string
		metric.Table
	}{{"host", s.Host}, {"vms", s.VMs}, {"pools", s.Pools}} {
		if len(t.Values) > maxSampledMetrics {
			return refuse(t.at, "The report has %d metrics; %d at most are accepted.", len(t.Values), maxSampledMetrics)
		}
		if len(t.IDs) > maxSampledObjects {
			return refuse(t.at, "The report has values of %d objects; %d at most are accepted.", len(t.IDs), maxSampledObjects)
		}
		for _, id := range t.IDs {
			if len(id) > defaultText.limit {
				return refuse(t.at, "An object has an ID of %d bytes; %d at most are accepted.", len(id), defaultText.limit)
			}
		}
		for name, column := range t.Values {
			if len(name) > defaultText.limit {
				return refuse(t.at, "A metric has a name of %d bytes; %d at most are accepted.", len(name), defaultText.limit)
			}
			if len(column) != len(t.IDs) {
				return refuse(t.at, "A metric has %d values for %d objects.", len(column), len(t.IDs))
			}
			for i, v := range column {
				if !v.IsMissing() {
					column[i] = min(max(v, 0), maxQuantity)
				}
			}
		}
	}
	s.Seconds = min(max(s.Seconds, 0), maxSampleSeconds)
	return s
}
