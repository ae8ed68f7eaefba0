package timeseries

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"math"
	"math/bits"
	"slices"

	"quantix/internal/fleet"
)

// A chunk is a version byte, a checksum, the number of points and of metrics, and then the range-coded metrics.
const (
	chunkVersion = 2
	chunkHeader  = 1 + 4
)

// Limits of a chunk: two-hour points of 62 days, and more metrics than any type has.
const (
	maxPoints  = 744
	maxMetrics = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeChunk returns the stored form of the points by metric number. All metrics have n points. A chunk is immutable:
// its time and its step are in its row.
func EncodeChunk(of fleet.ResourceType, n int, points map[int][]Point) []byte {
	steps := stepsByNumber(of)
	out := append([]byte{chunkVersion}, 0, 0, 0, 0)
	out = binary.AppendUvarint(out, uint64(n)) //nolint:gosec // a number of points
	out = binary.AppendUvarint(out, uint64(len(points)))
	e, m := newRangeEncoder(out), newPointModel()
	for _, metric := range slices.Sorted(maps.Keys(points)) {
		e.encodeNumber(&m.metric, uint64(metric)) //nolint:gosec // a metric number
		m.encode(e, points[metric], steps[metric])
	}
	out = e.finish()
	binary.LittleEndian.PutUint32(out[1:], crc32.Checksum(out[chunkHeader:], castagnoli))
	return out
}

// DecodeChunk returns the points by metric number.
func DecodeChunk(of fleet.ResourceType, chunk []byte) (n int, points map[int][]Point, err error) {
	if len(chunk) < chunkHeader || chunk[0] != chunkVersion || binary.LittleEndian.Uint32(chunk[1:]) != crc32.Checksum(chunk[chunkHeader:], castagnoli) {
		return 0, nil, errCorrupt
	}
	r := reader{data: chunk[chunkHeader:]}
	n = int(r.uvarint(maxPoints))
	metrics := int(r.uvarint(maxMetrics))
	if r.err != nil {
		return 0, nil, r.err
	}
	d, m := newRangeDecoder(r.data), newPointModel()
	steps, points, percent := stepsByNumber(of), map[int][]Point{}, map[int]bool{}
	for _, m := range fleet.MetricsOf(of) {
		percent[m.Number] = m.Unit == fleet.UnitPercent
	}
	for range metrics {
		metric := int(min(d.decodeNumber(&m.metric), math.MaxInt32)) //nolint:gosec // limited
		all := m.decode(d, n, steps[metric])
		if steps[metric] > 0 { // a newer version stored the others
			points[metric] = all
		}
		if percent[metric] {
			for i := range all {
				all[i].Mean, all[i].Max = min(all[i].Mean, 100), min(all[i].Max, 100) // more is a rounding error
			}
		}
	}
	if d.left() != 0 {
		return 0, nil, errCorrupt
	}
	return n, points, nil
}

// pointModel holds the probabilities of a chunk's numbers. They adapt from point to point, and carry over from metric to
// metric.
type pointModel struct {
	kind    [3][2]prob // by the last mean: missing, zero, other
	minZero [2]prob    // by the last minimum
	mean    numberModel
	min     numberModel
	max     numberModel
	metric  numberModel
}

func newPointModel() *pointModel {
	m := &pointModel{}
	for _, all := range [][]prob{m.kind[0][:], m.kind[1][:], m.kind[2][:], m.minZero[:]} {
		for i := range all {
			all[i] = probHalf
		}
	}
	for _, n := range []*numberModel{&m.mean, &m.min, &m.max, &m.metric} {
		n.reset()
	}
	return m
}

// encode encodes the points of one metric: of each mean the difference from the last one, and of minimum and maximum the
// distance from the mean. A point of zeros or without values has no numbers.
func (m *pointModel) encode(e *rangeEncoder, points []Point, steps float64) {
	last, kind, minZero := int64(codeFirst), 0, 0
	for _, p := range points {
		code := encodeValue(p.Mean, steps)
		now := int(min(code, codeFirst)) //nolint:gosec // at most 2
		e.encodeBit(&m.kind[kind][0], min(now, 1))
		if now > codeMissing {
			e.encodeBit(&m.kind[kind][1], now-1)
		}
		if kind = now; kind < codeFirst {
			continue
		}
		e.encodeNumber(&m.mean, zigzag(int64(code)-last)) //nolint:gosec // at most anyCode
		last = int64(code)                                //nolint:gosec // at most anyCode
		lowest, highest := encodeValue(p.Min, steps), encodeValue(p.Max, steps)
		zero := 0
		if lowest <= codeZero {
			zero = 1
		}
		e.encodeBit(&m.minZero[minZero], zero)
		if minZero = zero; zero == 0 {
			e.encodeNumber(&m.min, roundDistance(code-min(code, lowest), steps))
		}
		e.encodeNumber(&m.max, roundDistance(max(code, highest)-code, steps))
	}
}

func (m *pointModel) decode(d *rangeDecoder, n int, steps float64) []Point {
	last, kind, minZero := int64(codeFirst), 0, 0
	out := make([]Point, n)
	for i := range out {
		now := d.decodeBit(&m.kind[kind][0])
		if now > codeMissing {
			now += d.decodeBit(&m.kind[kind][1])
		}
		kind = now
		switch kind {
		case codeMissing:
			out[i] = missingPoint()
			continue
		case codeZero:
			continue
		}
		last = min(max(last+unzigzag(d.decodeNumber(&m.mean)), codeFirst), anyCode)
		mean := uint64(last) //nolint:gosec // positive
		zero := d.decodeBit(&m.minZero[minZero])
		out[i].Mean = decodeValue(mean, steps)
		if minZero = zero; zero == 0 {
			out[i].Min = decodeValue(mean-min(distanceOf(d.decodeNumber(&m.min), steps), mean-codeFirst), steps)
		}
		out[i].Max = decodeValue(min(mean+distanceOf(d.decodeNumber(&m.max), steps), anyCode), steps)
	}
	return out
}

// distanceSteps is the number of rounded distances in an octave, above which distances are not rounded further.
const distanceSteps = 8

// coarsest returns the bits of a distance that at most are rounded off.
func coarsest(steps float64) int { return bits.Len(uint(max(1, steps/distanceSteps))) - 1 }

// roundDistance returns the number of a distance from the mean. Distances are rounded by at most an eighth, because more
// would be noise, and by at most a 16th of an octave, which is 4.4 %.
func roundDistance(d uint64, steps float64) uint64 {
	shift := min(max(0, bits.Len64(d)-3), coarsest(steps))
	return uint64(shift)<<2 + d>>shift //nolint:gosec // positive
}

// distanceOf returns the middle of the distances with the number.
func distanceOf(q uint64, steps float64) uint64 {
	if q < 8 {
		return q
	}
	shift := min(q/4-1, uint64(coarsest(steps))) //nolint:gosec // positive
	return (min(q, anyCode)-shift<<2)<<shift + 1<<shift>>1
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) } //nolint:gosec // the usual mapping

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) } //nolint:gosec // the usual mapping
