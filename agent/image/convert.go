package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// DiskPart is a disk in a file: the whole file if Offset is 0 and Size is the file's, else a part of an archive.
// qemu-img reads the file through an open descriptor, never by its path.
type DiskPart struct {
	File   *os.File
	Offset int64
	Size   int64
	Format string
}

const targetPath = "/proc/self/fd/4"

// blockNode returns QEMU's block node for the disk: the format is explicit, so that QEMU never probes it.
func (p DiskPart) blockNode() map[string]any {
	file := map[string]any{"driver": "file", "filename": inputPath}
	if p.Offset > 0 { // QEMU needs a length that is a multiple of 512 bytes, and archives are padded to one
		file = map[string]any{"driver": "raw", "offset": p.Offset, "size": (p.Size + 511) / 512 * 512, "file": file}
	}
	out := map[string]any{"driver": p.Format, "file": file}
	if p.Format == "qcow2" || p.Format == "vmdk" {
		out["backing"] = nil
	}
	if p.Format == "vpc" {
		out["force_size_calc"] = "current_size"
	}
	return out
}

func nodeJSON(node map[string]any) string {
	text, err := json.Marshal(node)
	if err != nil {
		panic(err) // plain text and numbers cannot fail
	}
	return "json:" + string(text)
}

// Inspect inspects the disk with qemu-img as an unprivileged user, and refuses a disk whose format differs from its
// header's. need is the disk's size in bytes as a qcow2 file.
func (p DiskPart) Inspect(ctx context.Context, f Facts) (need int64, err error) {
	output, err := p.qemuImgOutput(ctx, "info", "--output=json", nodeJSON(p.blockNode()))
	if err != nil {
		return 0, err
	}
	if err := checkQemuImgAgrees(output, f); err != nil {
		return 0, err
	}
	if output, err = p.qemuImgOutput(ctx, "measure", "--output=json", "-O", "qcow2", nodeJSON(p.blockNode())); err != nil {
		return 0, err
	}
	return parseMeasuredSize(output)
}

func parseMeasuredSize(text []byte) (int64, error) {
	var out struct{ Required int64 }
	if err := json.Unmarshal(text, &out); err != nil || out.Required <= 0 {
		return 0, fmt.Errorf("read the output of qemu-img measure: %w", errors.Join(err, errors.New("the size is missing")))
	}
	return out.Required, nil
}

// qemuImgOutput runs qemu-img as an unprivileged user with only the disk's file.
func (p DiskPart) qemuImgOutput(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var out limitedOutput
	err := p.runQemuImg(ctx, &out, []string{"--as=1073741824", "--cpu=60", "--nofile=64", "--core=0", "--fsize=0"}, nil, args...)
	if err != nil {
		if ctx.Err() != nil || IsQemuImgMissing(err) {
			return nil, err
		}
		return nil, untrustedImageError("qemu-img does not accept it as a %s image: %s", p.Format, err)
	}
	return out.Bytes(), nil
}

// Convert copies the disk into the target file as an unprivileged user. The target must be an empty qcow2 image of the
// disk's size that nobody else uses. maxBytes limits the size of a written file; report receives the percentage.
func (p DiskPart) Convert(ctx context.Context, target *os.File, maxBytes int64, report func(percent int)) error {
	limits := []string{"--as=2147483648", "--nofile=64", "--core=0", "--fsize=" + strconv.FormatInt(maxBytes, 10)}
	return p.runQemuImg(ctx, &progressParser{report: report}, limits, target, "convert", "-p", "-n", "--target-is-zero", "-O", "qcow2", nodeJSON(p.blockNode()), targetPath)
}

// runQemuImg runs qemu-img as an unprivileged user. The process gets the disk's file and, unless it is nil, the target
// file.
func (p DiskPart) runQemuImg(ctx context.Context, out io.Writer, limits []string, target *os.File, args ...string) (err error) {
	call, err := newQemuImgCall(ctx, limits, args...)
	if err != nil {
		return err
	}
	call.Stdout, call.ExtraFiles = out, []*os.File{p.File}
	revoke, err := runAsNobody(call.Cmd, p.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, revoke()) }()
	if target != nil {
		call.ExtraFiles = append(call.ExtraFiles, target)
		revokeTarget, wrong := grantAccessToNobody(target, 0o060)
		if wrong != nil {
			return wrong
		}
		defer func() { err = errors.Join(err, revokeTarget()) }()
	}
	return call.run(ctx)
}

// progressParser parses the progress output of qemu-img: "    (12.34/100%)\r".
type progressParser struct {
	report func(int)
	last   string
}

// Write implements io.Writer.
func (p *progressParser) Write(b []byte) (int, error) {
	p.last += string(b)
	if i := strings.LastIndexByte(p.last, '('); i >= 0 {
		if whole, _, ok := strings.Cut(p.last[i+1:], "."); ok {
			if n, err := strconv.Atoi(whole); err == nil {
				p.report(min(max(n, 0), 100))
			}
		}
	}
	if len(p.last) > 64 {
		p.last = p.last[len(p.last)-64:]
	}
	return len(b), nil
}

// ChainFile is one file of a disk of this host, with its backing chain. The caller guarantees that each file is a plain
// file of its pool.
type ChainFile struct {
	Path, Format string
	Backing      *ChainFile
}

func (l *ChainFile) blockNode() map[string]any {
	out := map[string]any{"driver": l.Format, "file": map[string]any{"driver": "file", "filename": l.Path}}
	if l.Format == "qcow2" {
		out["backing"] = nil
		if l.Backing != nil {
			out["backing"] = l.Backing.blockNode()
		}
	}
	return out
}

// MeasureQcow2 returns the number of bytes that the disk takes as a qcow2 file.
func (l *ChainFile) MeasureQcow2(ctx context.Context) (int64, error) {
	call, err := newQemuImgCall(ctx, []string{"--as=2147483648", "--core=0"}, "measure", "--output=json", "-O", "qcow2", nodeJSON(l.blockNode()))
	if err != nil {
		return 0, err
	}
	var out limitedOutput
	call.Stdout = &out
	if err := call.run(ctx); err != nil {
		return 0, err
	}
	return parseMeasuredSize(out.Bytes())
}

// WriteVMDK writes the disk as a VMDK for archives into the target file. name is the file name in the VMDK's
// descriptor. report receives the percentage.
func (l *ChainFile) WriteVMDK(ctx context.Context, target *os.File, name string, report func(percent int)) error {
	call, err := newQemuImgCall(ctx, []string{"--as=2147483648", "--core=0"}, "convert", "-p", "-O", "vmdk", "-o", "subformat=streamOptimized,adapter_type=lsilogic", nodeJSON(l.blockNode()), inputPath)
	if err != nil {
		return err
	}
	call.Stdout, call.ExtraFiles = &progressParser{report: report}, []*os.File{target}
	if err := call.run(ctx); err != nil {
		return err
	}
	text := make([]byte, vmdkDescriptor)
	if _, err := target.ReadAt(text, sectorSize); err != nil {
		return fmt.Errorf("read the compressed VMDK: %w", err)
	}
	// qemu-img wrote the number of the file descriptor (3) as the file name into the VMDK's descriptor
	named := bytes.Replace(text, []byte(` SPARSE "3"`), []byte(` SPARSE "`+name+`"`), 1)
	if n := len(bytes.TrimRight(named, "\x00")); n > vmdkDescriptor {
		return fmt.Errorf("the name %q is too long for a VMDK descriptor", name)
	}
	_, err = target.WriteAt(named[:vmdkDescriptor], sectorSize)
	return err
}
