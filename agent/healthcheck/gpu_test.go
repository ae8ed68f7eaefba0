package healthcheck

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func smi(text string, status int) Program {
	return func(context.Context, ...string) ([]byte, int, error) { return []byte(text), status, nil }
}

func TestHealthyGPUsHaveNoFinding(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/nvidia-smi/*.xml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := GPUs(smi(string(text), 0), nil).Run(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", file, codes(found), err)
		}
		if found, err := GPUs(smi(string(text[:len(text)/2]), 0), nil).Run(t.Context()); err == nil || len(found) > 0 {
			t.Errorf("%s, truncated: %v, %v", file, codes(found), err)
		}
	}
}

// TestFaultsOfGPUs changes one value of a healthy GPU.
func TestFaultsOfGPUs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, old, new, want string }{
		"hot by hardware":       {"server-515.xml", "<clocks_throttle_reason_hw_thermal_slowdown>Not Active", "<clocks_throttle_reason_hw_thermal_slowdown>Active", "gpu/0000:3b:00.0 gpu-hot"},
		"hot by new names":      {"server-535.xml", "<clocks_event_reason_sw_thermal_slowdown>Not Active", "<clocks_event_reason_sw_thermal_slowdown>Active", "gpu/0000:41:00.0 gpu-hot"},
		"hot by temperature":    {"workstation-525.xml", "<gpu_temp>38 C", "<gpu_temp>101 C", "gpu/0000:17:00.0 gpu-hot"},
		"uncorrected in memory": {"server-515.xml", "<dram_uncorrectable>0", "<dram_uncorrectable>2", "gpu/0000:3b:00.0 gpu-uncorrected"},
		"rows not replaced":     {"server-515.xml", "<remapped_row_failure>No", "<remapped_row_failure>Yes", "gpu/0000:3b:00.0 gpu-remap-failed"},
		"reset needed":          {"server-515.xml", "<remapped_row_pending>No", "<remapped_row_pending>Yes", "gpu/0000:3b:00.0 gpu-reset-needed"},
		"lost":                  {"server-515.xml", "<gpu_temp>25 C", "<gpu_temp>ERR!", "gpu/0000:3b:00.0 gpu-lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata/nvidia-smi", c.file))
			if err != nil || !strings.Contains(string(text), c.old) {
				t.Fatalf("%s lacks %s (%v)", c.file, c.old, err)
			}
			found, err := GPUs(smi(strings.Replace(string(text), c.old, c.new, 1), 0), nil).Run(t.Context())
			if err != nil || !slices.Equal(codes(found), []string{c.want}) {
				t.Errorf("found %v, %v", codes(found), err)
			}
		})
	}
}

func TestUnusableOutputOfNvidiaSMI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text        string
		status      int
		unavailable bool
	}{
		"empty":      {"", 0, false},
		"no XML":     {"Segmentation fault", 139, false},
		"other XML":  {"<html><gpu id='x'/></html>", 0, false},
		"no GPU":     {"No devices were found", 6, true},
		"no driver":  {"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9, true},
		"no address": {"<nvidia_smi_log><gpu id='; rm -rf /'><uuid>1</uuid></gpu></nvidia_smi_log>", 0, false},
	} {
		found, err := GPUs(smi(c.text, c.status), nil).Run(t.Context())
		if _, is := errors.AsType[Unavailable](err); err == nil || is != c.unavailable || len(found) > 0 {
			t.Errorf("%s: %v, %v", name, codes(found), err)
		}
	}
	missing := func(context.Context, ...string) ([]byte, int, error) { return nil, 0, errNotInstalled }
	if _, err := GPUs(missing, nil).Run(t.Context()); !strings.Contains(err.Error(), "not installed") {
		t.Errorf("without nvidia-smi: %v", err)
	}
}

// TestXIDLines has lines of several generations of the driver, and lines that are none.
func TestXIDLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, want string
		severity   fleet.AlarmSeverity
		text       string
	}{
		{"NVRM: Xid (0000:03:00): 13, 0003 00000000 00008297 00001b0c 1000f010 00000040", "gpu/0000:03:00.0 xid-13", fleet.AlarmInfo, "exception of the graphics engine"},
		{"NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", "gpu/0000:41:00.0 xid-79", fleet.AlarmCritical, "fallen off the bus (XID 79): GPU has fallen"},
		{"NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "gpu/0000:41:00.0 xid-79", fleet.AlarmCritical, "pid='<unknown>'"},
		{"[ 1234.567890] NVRM: Xid (PCI:0000:C1:00): 31, pid=12345, name=python, Ch 00000010, intr 00000000. MMU Fault", "gpu/0000:c1:00.0 xid-31", fleet.AlarmInfo, "invalid address"},
		{"NVRM: Xid (PCI:0000:0f:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "gpu/0000:0f:00.0 xid-154", fleet.AlarmWarning, "recovery action"},
		{"NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08", "gpu/0018:01:00.0 xid-149", fleet.AlarmWarning, "NVLink"},
		{"NVRM: Xid (PCI:0000:41:00): 4711, something new", "gpu/0000:41:00.0 xid-4711", fleet.AlarmWarning, "does not know (XID 4711): something new"},
		{"NVRM: Xid (PCI:0000:41:00): 48", "gpu/0000:41:00.0 xid-48", fleet.AlarmCritical, "(XID 48)."},
		{"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "nvswitch/0000:c1:00.0 sxid-20034", fleet.AlarmCritical, "NVSwitch"},
		{"kvm: guest wrote NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", "", "", ""},
		{"NVRM: Xid (PCI:0000:41:00): seventy-nine, GPU", "", "", ""},
		{"NVRM: Xid (PCI:zz:41:00): 79, GPU", "", "", ""},
		{"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", "", "", ""},
		{"", "", "", ""},
	} {
		f, ok := parseXID(c.line)
		switch {
		case c.want == "":
			if ok {
				t.Errorf("%q is taken for %+v", c.line, f)
			}
		case !ok || f.Object+" "+f.Code != c.want || f.Severity != c.severity || !strings.Contains(f.Text, c.text):
			t.Errorf("%q gives %+v, %v", c.line, f, ok)
		}
	}
}
