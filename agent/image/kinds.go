package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// magics are the first bytes of formats that QEMU would detect by probing. Images in these formats may refer to other
// files.
var magics = []struct{ magic, format string }{
	{"QED\x00", "qed"},
	{"KDMV", "vmdk"},
	{"COWD", "vmdk"},
	{"# Disk DescriptorFile", "vmdk"},
	{"vhdxfile", "vhdx"},
	{"conectix", "vpc"},
	{"WithoutFreeSpace", "parallels"},
	{"WithouFreSpacExt", "parallels"},
	{"LUKS\xba\xbe", "luks"},
	{"<<< ", "vdi"},
	{"Bochs Virtual HD Image", "bochs"},
	{"#!/bin/sh\n#V2.0 Format\n", "cloop"},
}

const (
	vdiSignatureAt = 64
	vdiSignature   = 0xbeda107f
)

// formatByMagic returns the format, other than qcow2, that QEMU would detect by probing; empty: none.
func formatByMagic(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.format
		}
	}
	if len(head) >= vdiSignatureAt+4 && binary.LittleEndian.Uint32(head[vdiSignatureAt:]) == vdiSignature {
		return "vdi"
	}
	if isVMDKDescriptor(head) {
		return "vmdk"
	}
	return ""
}

// isVMDKDescriptor reports whether QEMU would detect a VMDK descriptor, which names other files. A descriptor begins
// with comments and blank lines, and then has a version.
func isVMDKDescriptor(head []byte) bool {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		text := bytes.Trim(line, " \r")
		if len(text) > 0 && text[0] != '#' {
			return bytes.HasPrefix(text, []byte("version="))
		}
		head = rest
	}
	return false
}

// archiveMagics are the magics of formats that contain other files.
var archiveMagics = []struct {
	at          int
	magic, what string
}{
	{0, "\x1f\x8b", "a gzip file"},
	{0, "\xfd7zXZ\x00", "an xz file"},
	{0, "\x28\xb5\x2f\xfd", "a zstd file"},
	{0, "BZh", "a bzip2 file"},
	{0, "PK\x03\x04", "a zip file"},
	{0, "PK\x05\x06", "a zip file"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z file"},
	{0, "Rar!\x1a\x07", "a rar file"},
	{0, "\x04\x22\x4d\x18", "an lz4 file"},
	{0, "LZIP", "an lzip file"},
	{257, "ustar", "a tar file"},
}

// textSampleBytes is enough to distinguish text from a disk.
const textSampleBytes = 4 << 10

// nonDiskContent returns a description of the file's content if the file has no magic and is certainly not a disk.
// isPacked reports that the content is an archive or compressed.
func nonDiskContent(head []byte) (what string, isPacked bool) {
	for _, p := range archiveMagics {
		if len(head) >= p.at && bytes.HasPrefix(head[p.at:], []byte(p.magic)) {
			return p.what, true
		}
	}
	if !isText(head[:min(len(head), textSampleBytes)]) {
		return "", false
	}
	begin := strings.ToLower(string(bytes.TrimLeft(head[:min(len(head), textSampleBytes)], "\ufeff \t\r\n")))
	for _, page := range []string{"<!doctype html", "<html", "<head", "<body", "<!--"} {
		if strings.HasPrefix(begin, page) {
			return "a web page", false
		}
	}
	if strings.HasPrefix(begin, "<?xml") || strings.HasPrefix(begin, "<") {
		return "an XML document", false
	}
	return "text", false
}

// isText reports whether all of head is UTF-8 text; an incomplete rune at the end is allowed.
func isText(head []byte) bool {
	if len(head) == 0 {
		return false
	}
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && n == 1:
			return len(head) < utf8.UTFMax && !utf8.FullRune(head)
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f', r == 0x7f:
			return false
		}
		head = head[n:]
	}
	return true
}

const (
	fixedVHDText = "a VHD image of fixed size"
	dmgText      = "a DMG image"
)

// formatByTrailer returns the format identified by the last 512 bytes.
func formatByTrailer(tail []byte) string {
	switch {
	case bytes.HasPrefix(tail, []byte("conectix")):
		return fixedVHDText
	case bytes.HasPrefix(tail, []byte("koly")):
		return dmgText
	}
	return ""
}

// Volume descriptors of an ISO image begin at sector 16, each with its identifier at its second byte.
const (
	sectorBytes      = 2048
	firstDescriptor  = 16
	maxDescriptors   = 32
	descriptorNameAt = 1
)

func hasDiscDescriptor(r io.ReaderAt) (bool, error) {
	text := make([]byte, maxDescriptors*sectorBytes)
	n, err := r.ReadAt(text, firstDescriptor*sectorBytes) // a short file has fewer descriptors
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return containsDiscDescriptor(text[:n]), nil
}

// containsDiscDescriptor searches the volume descriptors for an ISO 9660 or UDF descriptor.
func containsDiscDescriptor(text []byte) bool {
	for ; len(text) >= descriptorNameAt+5; text = text[min(len(text), sectorBytes):] {
		switch string(text[descriptorNameAt : descriptorNameAt+5]) {
		case "CD001", "NSR02", "NSR03":
			return true
		case "BEA01", "BOOT2", "CDW02": // extended area descriptors: more descriptors follow
		default:
			return false
		}
	}
	return false
}
