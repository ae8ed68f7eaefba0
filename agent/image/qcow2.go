package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"quantix/internal/fleet"
)

const (
	qcowMagic = "QFI\xfb"
	headerV2  = 72
	headerV3  = 104

	// Bits of incompatible features: an image with an unknown bit must not be opened.
	featureDirty       = 1 << 0
	featureCorrupt     = 1 << 1
	featureDataFile    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4
	featuresKnown      = featureDirty | featureCorrupt | featureDataFile | featureCompression | featureExtendedL2

	extensionEnd      = 0
	extensionBacking  = 0xe2792aca // the format of the backing file
	extensionDataFile = 0x44415441 // the name of the data file
	extensionLUKS     = 0x0537be77
	maxExtensions     = 64

	// Limits that QEMU enforces, too.
	maxL1Bytes       = 32 << 20
	maxRefcountBytes = 8 << 20
	maxSnapshots     = 65536

	offsetMask = 0x00fffffffffffe00 // offset bits of an L1 table entry
)

// qcow2 holds the header fields that this package uses. All numbers in the file are big-endian.
type qcow2 struct {
	head    []byte
	size    int64 // size of the file
	version uint32
	cluster int64
	length  int64 // length of the header
}

func (q qcow2) uint32At(at int) int64  { return int64(binary.BigEndian.Uint32(q.head[at:])) }
func (q qcow2) uint64At(at int) uint64 { return binary.BigEndian.Uint64(q.head[at:]) }

// readQcow2 reads the facts of a file that begins with the qcow magic.
func readQcow2(r io.ReaderAt, head []byte, size int64, deep bool) (Facts, error) {
	if len(head) < 8 {
		return Facts{}, ErrHeaderTruncated
	}
	q := qcow2{head: head, size: size, version: binary.BigEndian.Uint32(head[4:])}
	switch {
	case len(head) < headerV2, q.version > 2 && len(head) < headerV3:
		return Facts{}, ErrHeaderTruncated
	case q.version != 2 && q.version != 3:
		return Facts{Format: fmt.Sprintf("qcow%d", q.version)}, nil
	}
	f := Facts{Format: "qcow2", Size: int64(q.uint64At(24)), Encrypted: q.uint32At(32) != 0}
	if q.uint64At(8) != 0 {
		f.RefersTo = "a backing file"
	}
	if q.version == 3 && q.uint64At(72)&featureDataFile != 0 {
		f.RefersTo = "an external data file"
	}
	if f.Size < 0 {
		f.Size, f.HeaderFault = 0, "its header gives an absurd size"
	}
	if !deep || f.HeaderFault != "" {
		return f, nil
	}
	if f.HeaderFault = q.headerFault(f.Size); f.HeaderFault != "" {
		return f, nil
	}
	if err := q.readExtensions(r, &f); err != nil || f.HeaderFault != "" {
		return f, err
	}
	if f.HeaderFault = q.tablesFault(f.Size); f.HeaderFault != "" {
		return f, nil
	}
	var err error
	if f.HeaderFault, err = q.l2TablesFault(r); err != nil || f.HeaderFault != "" || f.RefersTo != "" {
		return f, err
	}
	f.HeaderFault, err = q.dataFault(r)
	return f, err
}

// headerFault validates the header's numbers, and returns the fault as a clause; empty: none.
func (q *qcow2) headerFault(virtual int64) string {
	clusterBits := q.uint32At(20)
	if clusterBits < 9 || clusterBits > 21 {
		return describeFault("its header gives clusters of 2^%d bytes; they have 512 bytes to 2 MiB", clusterBits)
	}
	q.cluster, q.length = 1<<clusterBits, headerV2
	if q.version == 3 {
		if q.length = q.uint32At(100); q.length < headerV3 || q.length > q.cluster || q.length%8 != 0 {
			return describeFault("its header gives its own length as %d bytes", q.length)
		}
		features := q.uint64At(72)
		switch {
		case features&^uint64(featuresKnown) != 0:
			return describeFault("its header requires unknown features (bit %d)", bits.TrailingZeros64(features&^uint64(featuresKnown)))
		case features&featureCorrupt != 0:
			return "its header says that it is corrupt"
		case features&featureCompression != 0 && (q.length <= headerV3 || len(q.head) <= headerV3 || q.head[headerV3] > 1):
			return "its header requires an unknown compression"
		case q.uint32At(96) > 6:
			return describeFault("its header gives reference counts of 2^%d bits; they have 64 at most", q.uint32At(96))
		}
	}
	switch {
	case virtual == 0:
		return "its header gives the size 0"
	case virtual > fleet.MaxDiskBytes:
		return describeFault("its header gives an absurd size, %s; a disk has at most %s", fleet.FormatBytes(virtual), fleet.FormatBytes(fleet.MaxDiskBytes))
	case q.uint32At(32) > 2:
		return "its header requires an unknown encryption"
	}
	return ""
}

// readExtensions searches the header extensions for references to other files, and records them in f.
func (q *qcow2) readExtensions(r io.ReaderAt, f *Facts) error {
	at := q.length
	for range maxExtensions {
		var text [8]byte
		if at+8 > q.cluster {
			return nil
		}
		if _, err := r.ReadAt(text[:], at); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		kind, length := binary.BigEndian.Uint32(text[:]), int64(binary.BigEndian.Uint32(text[4:]))
		switch {
		case kind == extensionEnd:
			return nil
		case at+8+length > q.cluster:
			f.HeaderFault = "a part of its header reaches beyond its first cluster"
			return nil
		case kind == extensionDataFile:
			f.RefersTo = "an external data file"
		case kind == extensionBacking && f.RefersTo == "" && length > 0:
			f.RefersTo = "a backing file"
		case kind == extensionLUKS:
			f.Encrypted = true
		}
		at += 8 + (length+7)/8*8
	}
	f.HeaderFault = "its header has too many parts"
	return nil
}

// tablesFault checks that the tables are inside the file and that the L1 table is large enough. It returns the fault as
// a clause.
func (q *qcow2) tablesFault(virtual int64) string {
	perL2 := q.cluster / 8
	if q.version == 3 && q.uint64At(72)&featureExtendedL2 != 0 {
		perL2 = q.cluster / 16
	}
	entries := q.uint32At(36)
	span := q.cluster * perL2
	switch need := (virtual-1)/span + 1; {
	case entries*8 > maxL1Bytes:
		return describeFault("its header gives a table of %d entries", entries)
	case entries < need:
		return describeFault("its table has %d entries, fewer than the %d that its size requires", entries, need)
	case !q.isTableInsideFile(q.uint64At(40), entries*8):
		return q.outsideFileFault("cluster table")
	case q.uint32At(56)*q.cluster > maxRefcountBytes || q.uint32At(56) == 0:
		return describeFault("its header gives a table of reference counts of %d clusters", q.uint32At(56))
	case !q.isTableInsideFile(q.uint64At(48), q.uint32At(56)*q.cluster):
		return q.outsideFileFault("table of reference counts")
	case q.uint32At(60) > maxSnapshots:
		return describeFault("its header gives %d snapshots", q.uint32At(60))
	case q.uint32At(60) > 0 && !q.isTableInsideFile(q.uint64At(64), 40*q.uint32At(60)):
		return q.outsideFileFault("table of snapshots")
	}
	return ""
}

func (q *qcow2) outsideFileFault(what string) string {
	return describeFault("its %s lies outside the file, which has %s. It may be cut off", what, fleet.FormatBytes(q.size))
}

// isTableInsideFile reports whether a table begins at a cluster after the header and ends in the file, whose last cluster
// may be incomplete.
func (q *qcow2) isTableInsideFile(at uint64, length int64) bool {
	end := (q.size + q.cluster - 1) / q.cluster * q.cluster
	return at >= uint64(q.cluster) && at%uint64(q.cluster) == 0 && at < uint64(q.size) && length <= end-int64(at)
}

// l2TablesFault checks that every L2 table is inside the file. It returns the fault as a clause.
func (q *qcow2) l2TablesFault(r io.ReaderAt) (string, error) {
	left, at := q.uint32At(36)*8, int64(q.uint64At(40))
	part := make([]byte, 64<<10)
	for left > 0 {
		text := part[:min(left, int64(len(part)))]
		n, err := r.ReadAt(text, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		for i := 0; i+8 <= n; i += 8 {
			if to := binary.BigEndian.Uint64(text[i:]) & offsetMask; to != 0 && !q.isTableInsideFile(to, q.cluster) {
				return q.outsideFileFault("L2 table"), nil
			}
		}
		if n < len(text) {
			return q.outsideFileFault("cluster table"), nil
		}
		left, at = left-int64(n), at+int64(n)
	}
	return "", nil
}
