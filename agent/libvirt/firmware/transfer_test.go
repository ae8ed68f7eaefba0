package firmware

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

const vmID = fleet.VMID("4dea22b3-1d52-d8f3-2516-782e98ab3fa0")

// newDomain returns a definition with UEFI and a TPM.
func newDomain(secure bool) *libvirtxml.Domain {
	suffix, on := domxml.PlainVarsSuffix, "no"
	if secure {
		suffix, on = domxml.SecureVarsSuffix, "yes"
	}
	return &libvirtxml.Domain{
		UUID: string(vmID),
		OS: &libvirtxml.DomainOS{
			NVRam:        &libvirtxml.DomainNVRam{NVRam: filepath.Join(domxml.NVRAMDir, string(vmID)+suffix)},
			FirmwareInfo: &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{{Name: "secure-boot", Enabled: on}}},
		},
		Devices: &libvirtxml.DomainDeviceList{TPMs: []libvirtxml.DomainTPM{{
			Backend: &libvirtxml.DomainTPMBackend{Emulator: &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}},
		}}},
	}
}

// newHost returns a host without files of the VM.
func newHost(t *testing.T) Files {
	t.Helper()
	f := Files{Lib: t.TempDir()}
	for _, dir := range []string{domxml.NVRAMDir, domxml.TPMDir} {
		requireNoError(t, os.MkdirAll(f.at(dir), 0o755))
	}
	return f
}

// write writes a file of the host.
func (f Files) write(t *testing.T, path, content string) {
	t.Helper()
	requireNoError(t, os.MkdirAll(filepath.Dir(f.at(path)), 0o755))
	requireNoError(t, os.WriteFile(f.at(path), []byte(content), 0o600))
}

func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tpmPath(name string) string {
	return filepath.Join(domxml.TPMDir, string(vmID), tpmVersionDir, name)
}

func nvramPath() string { return filepath.Join(domxml.NVRAMDir, string(vmID)+domxml.PlainVarsSuffix) }

func TestStateArrivesUnchanged(t *testing.T) {
	t.Parallel()
	source, target, x := newHost(t), newHost(t), newDomain(false)
	source.write(t, nvramPath(), "variables")
	source.write(t, tpmPath("tpm2-00.permall"), "keys")
	source.write(t, tpmPath(".lock"), "")
	target.write(t, tpmPath("tpm2-00.permall"), "keys of an earlier time")
	sent, err := source.Read(x)
	requireNoError(t, err)
	text, err := sent.Encode()
	requireNoError(t, err)
	got, err := Decode(text)
	requireNoError(t, err)
	requireNoError(t, target.Stage(vmID, "transfer", got))
	for range 2 { // a repeated call completes an interrupted one
		requireNoError(t, target.Place(x, os.Getuid()))
	}
	there, err := target.Read(x)
	requireNoError(t, err)
	if there.Stamp() != sent.Stamp() || string(there.Variables) != "variables" || string(there.TPM["tpm2-00.permall"]) != "keys" {
		t.Errorf("the target has %+v", there)
	}
	for path, mode := range map[string]os.FileMode{nvramPath(): 0o600, tpmPath("tpm2-00.permall"): 0o600, filepath.Dir(tpmPath("")): 0o711, strings.TrimSuffix(tpmPath(""), "/"): 0o700} {
		if info, err := os.Stat(target.at(path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want the mode %o", path, info.Mode(), err, mode)
		}
	}
	requireNoError(t, target.Discard(vmID, ""))
	requireNoError(t, os.Remove(target.at(nvramPath())))
	requireNoError(t, target.Place(x, os.Getuid()))
	if there, err = target.Read(x); err != nil || len(there.Variables) > 0 {
		t.Errorf("state that is no longer stored was placed: %+v %v", there, err)
	}
}

func TestOnlyTheNewestTransferIsDiscardedAndPlaced(t *testing.T) {
	t.Parallel()
	f, x := newHost(t), newDomain(false)
	requireNoError(t, f.Stage(vmID, "first", State{Variables: []byte("old")}))
	requireNoError(t, f.Stage(vmID, "second", State{Variables: []byte("new")}))
	requireNoError(t, f.Discard(vmID, "first"))
	if is, err := f.IsStaged(vmID, "second"); err != nil || !is {
		t.Fatalf("the second transfer is stored: %v %v", is, err)
	}
	requireNoError(t, f.Place(x, os.Getuid()))
	if got, err := f.Read(x); err != nil || string(got.Variables) != "new" {
		t.Errorf("placed: %+v %v", got, err)
	}
	requireNoError(t, f.Discard(vmID, "second"))
	if is, err := f.IsStaged(vmID, "second"); err != nil || is {
		t.Errorf("the discarded transfer is stored: %v %v", is, err)
	}
}

func TestStateThatDoesNotFitIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	f := newHost(t)
	requireNoError(t, f.Stage(vmID, "transfer", State{Variables: []byte("keys"), SecureBoot: true}))
	if err := f.Place(newDomain(false), os.Getuid()); err == nil || !strings.Contains(err.Error(), "Secure boot was changed") {
		t.Errorf("placed without secure boot: %v", err)
	}
	requireNoError(t, f.Place(newDomain(true), os.Getuid()))
	if got, err := f.Read(newDomain(true)); err != nil || string(got.Variables) != "keys" || !got.SecureBoot {
		t.Errorf("placed: %+v %v", got, err)
	}
}

func TestHostileStateRefused(t *testing.T) {
	t.Parallel()
	large, err := State{Variables: make([]byte, maxStateBytes+1)}.Encode()
	requireNoError(t, err)
	for name, text := range map[string]string{
		"a path as a TPM's file": `{"tpm":{"../../../etc/passwd":"eA=="}}`,
		"an unknown TPM's file":  `{"tpm":{"swtpm.conf":"eA=="}}`,
		"an unknown part":        `{"variables":"eA==","path":"/etc/passwd"}`,
		"no state":               `firmware`,
		"too much content":       string(large),
		"too many bytes":         strings.Repeat(" ", MaxEncodedBytes+1) + "{}",
	} {
		if got, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "the source host sends") || len(got.TPM)+len(got.Variables) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// swtpm's user can write into the directory of a TPM's state.
func TestStateOfOtherFilesIsNotRead(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	requireNoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for name, spoil := range map[string]func(f Files){
		"a link": func(f Files) { requireNoError(t, os.Symlink(secret, f.at(tpmPath("tpm2-00.permall")))) },
		"a linked directory": func(f Files) {
			requireNoError(t, os.Remove(f.at(tpmPath(""))))
			requireNoError(t, os.Symlink(filepath.Dir(secret), strings.TrimSuffix(f.at(tpmPath("")), "/")))
		},
		"an unknown file":     func(f Files) { f.write(t, tpmPath("extra"), "x") },
		"linked variables":    func(f Files) { requireNoError(t, os.Symlink(secret, f.at(nvramPath()))) },
		"too many variables":  func(f Files) { f.write(t, nvramPath(), strings.Repeat("x", maxStateBytes+1)) },
		"too large TPM state": func(f Files) { f.write(t, tpmPath("tpm2-00.permall"), strings.Repeat("x", maxStateBytes+1)) },
	} {
		f := newHost(t)
		requireNoError(t, os.MkdirAll(f.at(tpmPath("")), 0o700))
		spoil(f)
		if got, err := f.Read(newDomain(false)); err == nil || bytes.Contains(got.TPM["tpm2-00.permall"], []byte("secret")) {
			t.Errorf("%s: read %d and %d bytes, %v", name, len(got.Variables), len(got.TPM["tpm2-00.permall"]), err)
		}
	}
}

func TestUnsendableFirmwareRefused(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(*libvirtxml.Domain){
		"encrypted": func(x *libvirtxml.Domain) {
			x.Devices.TPMs[0].Backend.Emulator.Encryption = &libvirtxml.DomainTPMBackendEncryption{Secret: "s"}
		},
		"not an emulated TPM": func(x *libvirtxml.Domain) {
			x.Devices.TPMs[0].Backend = &libvirtxml.DomainTPMBackend{Passthrough: &libvirtxml.DomainTPMBackendPassthrough{}}
		},
		"not in a file": func(x *libvirtxml.Domain) {
			x.OS.NVRam.Source = &libvirtxml.DomainDiskSource{Network: &libvirtxml.DomainDiskSourceNetwork{}}
		},
	} {
		x := newDomain(false)
		spoil(x)
		if _, err := newHost(t).Read(x); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error with %q", err, says)
		}
	}
}

func TestRestOfSentStateIsRecognized(t *testing.T) {
	t.Parallel()
	sent := State{Variables: []byte("v"), TPM: map[string][]byte{"tpm2-00.permall": []byte("t")}}
	for name, c := range map[string]struct {
		left State
		want bool
	}{
		"all":               {sent, true},
		"nothing":           {State{}, true},
		"only the TPM":      {State{TPM: sent.TPM}, true},
		"changed variables": {State{Variables: []byte("w"), TPM: sent.TPM}, false},
		"another TPM":       {State{TPM: map[string][]byte{"tpm2-00.permall": []byte("u")}}, false},
	} {
		if got := c.left.IsRestOf(sent.Stamp()); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
