package image

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// maxTableBytes limits the bytes of tables read to detect a truncated file.
const maxTableBytes = 1 << 30

const (
	entryCompressed = 1 << 62
	entryZero       = 1
	refcountMask    = ^uint64(0x1ff) // offset bits of a refcount table entry
)

// dataFault checks that all data clusters are inside the file. Usually the reference counts prove it: no cluster after
// the file's end has a count. Otherwise dataFault reads the L2 tables.
func (q *qcow2) dataFault(r io.ReaderAt) (string, error) {
	last, err := q.lastRefcountedCluster(r)
	if err != nil || last < 0 || last*q.cluster < q.size {
		return "", err
	}
	step := int64(8)
	if q.version == 3 && q.uint64At(72)&featureExtendedL2 != 0 {
		step = 16
	}
	table := make([]byte, q.cluster)
	read := int64(0)
	for i := range q.uint32At(36) {
		var entry [8]byte
		if _, err := r.ReadAt(entry[:], int64(q.uint64At(40))+8*i); err != nil {
			return "", ignoreEOF(err)
		}
		at := int64(binary.BigEndian.Uint64(entry[:]) & offsetMask)
		if at == 0 {
			continue
		}
		if read += q.cluster; read > maxTableBytes {
			return "", nil
		}
		n, err := r.ReadAt(table, at)
		if err := ignoreEOF(err); err != nil {
			return "", err
		}
		for e := int64(0); e+8 <= int64(n); e += step {
			if q.isDataBeyondFileEnd(binary.BigEndian.Uint64(table[e:])) {
				return q.outsideFileFault("data"), nil
			}
		}
	}
	return "", nil
}

// isDataBeyondFileEnd reports whether an L2 entry refers to data after the file's end.
func (q *qcow2) isDataBeyondFileEnd(entry uint64) bool {
	if entry&entryCompressed != 0 {
		shift := 62 - (q.uint32At(20) - 8)
		return entry&(1<<shift-1) >= uint64(q.size)
	}
	return entry&entryZero == 0 && entry&offsetMask >= uint64(q.size)
}

// lastRefcountedCluster returns the last cluster with a reference count; negative: none.
func (q *qcow2) lastRefcountedCluster(r io.ReaderAt) (int64, error) {
	table := make([]byte, q.uint32At(56)*q.cluster)
	n, err := r.ReadAt(table, int64(q.uint64At(48)))
	if err := ignoreEOF(err); err != nil {
		return -1, err
	}
	order := int64(4)
	if q.version == 3 {
		order = q.uint32At(96)
	}
	inBlock := q.cluster * 8 >> order
	block := make([]byte, q.cluster)
	for i := int64(n)/8 - 1; i >= 0; i-- {
		at := binary.BigEndian.Uint64(table[8*i:]) & refcountMask
		if at == 0 {
			continue
		}
		if at >= uint64(q.size) { // the block of counts is after the file's end
			return i * inBlock, nil
		}
		got, err := r.ReadAt(block, int64(at))
		if err := ignoreEOF(err); err != nil {
			return -1, err
		}
		for k := got - 1; k >= 0; k-- {
			if block[k] != 0 {
				// reference counts smaller than a byte are stored from the byte's lowest bit upwards
				last := int64(k*8 + bits.Len8(block[k]) - 1)
				return i*inBlock + last>>order, nil
			}
		}
	}
	return -1, nil
}

// ignoreEOF returns the error of a read, or nil if the read only reached the file's end.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
