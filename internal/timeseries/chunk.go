package timeseries

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"quantix/internal/fleet"
)

// chunkVersion is the first byte of a chunk.
const chunkVersion = 1

// maxChunkBytes limits the decompressed size of a chunk: 64 metrics of 744 points with three codes of four bytes.
const maxChunkBytes = 64 * 744 * 12

var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxChunkBytes), zstd.WithDecoderConcurrency(0)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// EncodeChunk returns the stored form of the points by metric number. All metrics have n points. A chunk is immutable:
// its time and its step are in its row.
func EncodeChunk(of fleet.ResourceType, n int, points map[int][]Point) []byte {
	steps := stepsByNumber(of)
	raw := binary.AppendUvarint(nil, uint64(n)) //nolint:gosec // a number of points
	raw = binary.AppendUvarint(raw, uint64(len(points)))
	for _, metric := range slices.Sorted(maps.Keys(points)) {
		raw = binary.AppendUvarint(raw, uint64(metric)) //nolint:gosec // a metric number
		raw = appendPoints(raw, points[metric], steps[metric])
	}
	return compressor.EncodeAll(raw, []byte{chunkVersion})
}

// appendPoints appends the codes of points: of the means the differences, then of minimum and maximum the distances
// from the mean. Equal kinds of numbers stand together, because they compress better.
func appendPoints(out []byte, points []Point, steps float64) []byte {
	means := make([]uint64, len(points))
	last := int64(0)
	for i, p := range points {
		means[i] = encodeValue(p.Mean, steps)
		if means[i] == codeMissing {
			out = append(out, 0)
			continue
		}
		code := int64(means[i]) //nolint:gosec // at most anyCode
		out = binary.AppendUvarint(out, 1+zigzag(code-last))
		last = code
	}
	for i, p := range points {
		if means[i] != codeMissing {
			out = binary.AppendUvarint(out, means[i]-min(means[i], max(codeZero, encodeValue(p.Min, steps))))
		}
	}
	for i, p := range points {
		if means[i] != codeMissing {
			out = binary.AppendUvarint(out, max(means[i], encodeValue(p.Max, steps))-means[i])
		}
	}
	return out
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) } //nolint:gosec // the usual mapping

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) } //nolint:gosec // the usual mapping

// DecodeChunk returns the points by metric number.
func DecodeChunk(of fleet.ResourceType, chunk []byte) (n int, points map[int][]Point, err error) {
	if len(chunk) == 0 || chunk[0] != chunkVersion {
		return 0, nil, errCorrupt
	}
	raw, err := decompressor.DecodeAll(chunk[1:], nil)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	r := reader{data: raw}
	n = int(r.uvarint(744))
	metrics := int(r.uvarint(64))
	steps, points := stepsByNumber(of), map[int][]Point{}
	for range metrics {
		metric := int(r.uvarint(math.MaxInt32))
		all := r.points(n, steps[metric])
		if steps[metric] > 0 { // a newer version stored the others
			points[metric] = all
		}
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errCorrupt
	}
	if r.err != nil {
		return 0, nil, r.err
	}
	return n, points, nil
}

func (r *reader) points(n int, steps float64) []Point {
	out, means := make([]Point, n), make([]uint64, n)
	last := int64(0)
	for i := range out {
		out[i] = missingPoint()
		if delta := r.uvarint(4 * anyCode); delta > 0 {
			last += unzigzag(delta - 1)
			means[i] = uint64(max(last, codeZero)) //nolint:gosec // positive
			out[i].Mean = decodeValue(means[i], steps)
		}
	}
	for i := range out {
		if means[i] != codeMissing {
			out[i].Min = decodeValue(means[i]-min(r.uvarint(anyCode), means[i]-codeZero), steps)
		}
	}
	for i := range out {
		if means[i] != codeMissing {
			out[i].Max = decodeValue(means[i]+r.uvarint(anyCode), steps)
		}
	}
	return out
}
