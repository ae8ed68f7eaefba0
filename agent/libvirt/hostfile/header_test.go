package hostfile

import "encoding/binary"

// qcow2Header returns the header of a qcow2 image of 5 GiB. change may modify the header; nil: no change.
func qcow2Header(version uint32, change func([]byte)) []byte {
	h := make([]byte, 512)
	copy(h, "QFI\xfb")
	binary.BigEndian.PutUint32(h[4:], version)
	binary.BigEndian.PutUint64(h[24:], 5<<30)
	if change != nil {
		change(h)
	}
	return h
}
