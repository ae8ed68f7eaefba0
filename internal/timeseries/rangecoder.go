package timeseries

import "math/bits"

// prob is the probability of a bit 0, in units of 2^-12. It adapts to the bits that were coded with it.
type prob uint16

const (
	probBits = 12
	probHalf = 1 << (probBits - 1)
	adaption = 4 // the larger, the slower
)

func (p *prob) update(bit int) {
	if bit == 0 {
		*p += (1<<probBits - *p) >> adaption
	} else {
		*p -= *p >> adaption
	}
}

// numberModel has the probabilities of numbers below 2^31: of their length in bits, and of the two bits after the first
// one. The other bits are noise, which has no model.
type numberModel struct {
	length [32]prob
	high   [32][3]prob
}

func (m *numberModel) reset() {
	for i := range m.length {
		m.length[i] = probHalf
		m.high[i] = [3]prob{probHalf, probHalf, probHalf}
	}
}

const (
	rangeTop   = 1 << 24
	lengthBits = 5
)

// rangeEncoder is the binary arithmetic coder of LZMA.
type rangeEncoder struct {
	out   []byte
	low   uint64
	width uint32
	held  byte // the byte before those of carried
	carry int  // bytes 0xff that a carry may still change, and the held byte
	began bool
}

func newRangeEncoder(out []byte) *rangeEncoder { return &rangeEncoder{out: out, width: 1<<32 - 1} }

func (e *rangeEncoder) encodeBit(p *prob, bit int) {
	bound := e.width >> probBits * uint32(*p)
	if bit == 0 {
		e.width = bound
	} else {
		e.low += uint64(bound)
		e.width -= bound
	}
	p.update(bit)
	e.normalize()
}

// encodeEven encodes the lowest n bits of v, which have no model.
func (e *rangeEncoder) encodeEven(v uint64, n int) {
	for n--; n >= 0; n-- {
		e.width >>= 1
		if v>>n&1 == 1 {
			e.low += uint64(e.width)
		}
		e.normalize()
	}
}

func (e *rangeEncoder) normalize() {
	for e.width < rangeTop {
		e.width <<= 8
		e.shift()
	}
}

// shift moves the highest byte out, as soon as no carry can change it.
func (e *rangeEncoder) shift() {
	if e.low < 0xff<<24 || e.low > 1<<32-1 {
		over := byte(e.low >> 32)
		if e.began {
			e.out = append(e.out, e.held+over)
		}
		for ; e.carry > 0; e.carry-- {
			e.out = append(e.out, 0xff+over)
		}
		e.began, e.held = true, byte(e.low>>24)
	} else {
		e.carry++
	}
	e.low = e.low & (rangeTop - 1) << 8
}

// finish returns the output.
func (e *rangeEncoder) finish() []byte {
	for range 5 {
		e.shift()
	}
	return e.out
}

// encodeNumber encodes a number below 2^31.
func (e *rangeEncoder) encodeNumber(m *numberModel, v uint64) {
	n := bits.Len64(v)
	node := 1
	for i := lengthBits - 1; i >= 0; i-- {
		bit := n >> i & 1
		e.encodeBit(&m.length[node], bit)
		node = node<<1 | bit
	}
	at, low := 0, n-1
	for range 2 {
		if low--; low < 0 {
			return
		}
		bit := int(v >> low & 1)
		e.encodeBit(&m.high[n][at], bit)
		at = 1 + bit
	}
	e.encodeEven(v, max(low, 0))
}

// rangeDecoder decodes the output of a rangeEncoder. After the end of the input it reads zeros.
type rangeDecoder struct {
	data        []byte
	at          int
	code, width uint32
}

func newRangeDecoder(data []byte) *rangeDecoder {
	d := &rangeDecoder{data: data, width: 1<<32 - 1}
	for range 4 {
		d.code = d.code<<8 | uint32(d.next())
	}
	return d
}

func (d *rangeDecoder) next() (b byte) {
	if d.at < len(d.data) {
		b = d.data[d.at]
	}
	d.at++
	return b
}

// left returns the bytes that were not read, negative if too many were read.
func (d *rangeDecoder) left() int { return len(d.data) - d.at }

func (d *rangeDecoder) decodeBit(p *prob) (bit int) {
	bound := d.width >> probBits * uint32(*p)
	if d.code < bound {
		d.width = bound
	} else {
		d.code -= bound
		d.width -= bound
		bit = 1
	}
	p.update(bit)
	d.normalize()
	return bit
}

func (d *rangeDecoder) normalize() {
	for d.width < rangeTop {
		d.width <<= 8
		d.code = d.code<<8 | uint32(d.next())
	}
}

func (d *rangeDecoder) decodeEven(n int) (v uint64) {
	for range n {
		d.width >>= 1
		v <<= 1
		if d.code >= d.width {
			d.code -= d.width
			v |= 1
		}
		d.normalize()
	}
	return v
}

func (d *rangeDecoder) decodeNumber(m *numberModel) uint64 {
	node := 1
	for range lengthBits {
		node = node<<1 | d.decodeBit(&m.length[node])
	}
	n := node - 1<<lengthBits
	if n == 0 {
		return 0
	}
	v, at, low := uint64(1), 0, n-1
	for range 2 {
		if low--; low < 0 {
			return v
		}
		bit := d.decodeBit(&m.high[n][at])
		v, at = v<<1|uint64(bit), 1+bit //nolint:gosec // 0 or 1
	}
	return v<<max(low, 0) | d.decodeEven(max(low, 0))
}
