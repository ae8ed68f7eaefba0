//go:build linux

package lab

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// initramfs writes a gzip-compressed cpio archive in the "newc" format, which the kernel unpacks at boot.
type initramfs struct {
	gz    *gzip.Writer
	inode int
	err   error
}

// File types in newc modes.
const (
	typeDir    = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeDevice = 0o020000 // character device
)

func newInitramfs(w io.Writer) *initramfs { return &initramfs{gz: gzip.NewWriter(w)} }

func (a *initramfs) addDir(name string) { a.addEntry(name, typeDir|0o755, nil, 0, 0) }

func (a *initramfs) addFile(name string, data []byte, perm int) {
	a.addEntry(name, typeFile|perm, data, 0, 0)
}

func (a *initramfs) addLink(name, target string) {
	a.addEntry(name, typeLink|0o777, []byte(target), 0, 0)
}

func (a *initramfs) addDevice(name string, major, minor int) {
	a.addEntry(name, typeDevice|0o600, nil, major, minor)
}

// close ends the archive and returns the first error of all writes.
func (a *initramfs) close() error {
	a.addEntry("TRAILER!!!", 0, nil, 0, 0)
	if a.err != nil {
		return a.err
	}
	return a.gz.Close()
}

func (a *initramfs) addEntry(name string, mode int, data []byte, major, minor int) {
	if a.err != nil {
		return
	}
	a.inode++
	var b bytes.Buffer
	// The fields are: inode, mode, uid, gid, number of links, mtime, size, device of the file system, device of the
	// file, length of the name, checksum.
	fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	b.WriteString(name + "\x00")
	padToFourBytes(&b)
	b.Write(data)
	padToFourBytes(&b)
	_, a.err = a.gz.Write(b.Bytes())
}

func padToFourBytes(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
