package timeseries

import (
	"encoding/binary"
	"errors"
	"math"

	"quantix/internal/fleet"
)

// A code is a value's stored form, a logarithm in steps of equal ratio: 0 is no value, 1 is zero or less, and the codes
// from 2 on are smallest·2^((code-2)/stepsPerOctave).
const (
	codeMissing = 0
	codeZero    = 1
	codeFirst   = 2
)

// smallest is the smallest value above zero: a microsecond, or a millionth of any other unit. Smaller values are stored
// as zero.
const smallest = 1e-6

// maxOctaves limits values to smallest·2^80, which is more than 10^18.
const maxOctaves = 80

// stepsPerOctave returns the number of codes between a value and its double. Quantities of bytes are compared and
// extrapolated, and numbers of hosts are compared, so they have an error of at most 0.04 %, and other values of at most
// 0.6 %.
func stepsPerOctave(u fleet.MetricUnit) float64 {
	if u == fleet.UnitBytes || u == fleet.UnitQuantity {
		return finest
	}
	return 64
}

// encodeValue returns the code of a value.
func encodeValue(v float64, steps float64) uint64 {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return codeMissing
	case v < smallest:
		return codeZero
	}
	return codeFirst + uint64(math.Round(min(math.Log2(v/smallest), maxOctaves)*steps))
}

// decodeValue returns the value of a code; NaN: no value.
func decodeValue(code uint64, steps float64) float64 {
	switch code {
	case codeMissing:
		return math.NaN()
	case codeZero:
		return 0
	}
	if steps == 0 { // a metric that this version does not know
		return math.NaN()
	}
	n := uint64(steps)
	k := code - codeFirst
	return octaves[min(k/n, maxOctaves)] * fractions[k%n*(finest/n)]
}

// finest is the largest number of codes in an octave.
const finest = 1024

// octaves and fractions are the values of whole octaves, and of the parts of an octave. Decoding is most of the work of a
// chart, and a product is faster than a power.
var octaves, fractions = func() (whole [maxOctaves + 1]float64, parts [finest]float64) {
	for i := range whole {
		whole[i] = smallest * math.Exp2(float64(i))
	}
	for i := range parts {
		parts[i] = math.Exp2(float64(i) / finest)
	}
	return whole, parts
}()

// anyCode is above all codes.
const anyCode = codeFirst + maxOctaves*finest

// stepsByNumber returns the steps per octave by the number of each metric.
func stepsByNumber(of fleet.ResourceType) map[int]float64 { return stepsOfTypes[of] }

var stepsOfTypes = func() map[fleet.ResourceType]map[int]float64 {
	out := map[fleet.ResourceType]map[int]float64{}
	for _, of := range []fleet.ResourceType{fleet.TypeHost, fleet.TypeVM, fleet.TypePool, fleet.TypeCluster} {
		out[of] = map[int]float64{}
		for _, m := range fleet.MetricsOf(of) {
			out[of][m.Number] = stepsPerOctave(m.Unit)
		}
	}
	return out
}()

// errCorrupt is the error for bytes that are no row or chunk.
var errCorrupt = errors.New("the stored metrics are damaged")

// reader reads numbers of a row or chunk. After an error, it returns zeros.
type reader struct {
	data []byte
	err  error
}

func (r *reader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > limit {
		r.data, r.err = nil, errCorrupt
		return 0
	}
	r.data = r.data[n:]
	return v
}
