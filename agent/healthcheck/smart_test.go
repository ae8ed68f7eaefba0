package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/internal/healthevent"
)

// fakeSmartctl is a smartctl that answers with a file of testdata, or a text, for each device.
func fakeSmartctl(t *testing.T, devices map[string]string) Program {
	return func(_ context.Context, args ...string) ([]byte, int, error) {
		if slices.Contains(args, "--scan-open") {
			var all []string
			for _, name := range slices.Sorted(maps.Keys(devices)) {
				all = append(all, fmt.Sprintf(`{"name": %q, "type": "sat"}`, name))
			}
			return []byte(`{"devices": [` + strings.Join(all, ",") + `]}`), 0, nil
		}
		answer := devices[args[len(args)-1]]
		if strings.HasSuffix(answer, ".json") {
			data, err := os.ReadFile(filepath.Join("testdata/smartctl", answer))
			if err != nil {
				t.Error(err)
			}
			return data, 0, nil
		}
		return []byte(answer), 0, nil
	}
}

// codes returns "object code" of each finding.
func codes(all []healthevent.Finding) (out []string) {
	for _, f := range all {
		out = append(out, f.Object+" "+f.Code)
	}
	return out
}

func TestFindingsOfDisks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want   []string
		values map[string]float64 // some of the first finding's values
	}{
		"ata-hdd.json":            {nil, nil},
		"scsi-hdd.json":           {nil, nil},
		"usb-ssd.json":            {nil, nil},
		"nvme.json":               {nil, nil},
		"corrected-scsi-hdd.json": {nil, nil},
		"failing-hdd.json": {
			[]string{"smart-failing", "pending-sectors", "uncorrectable-sectors", "reallocated-sectors", "disk-hot"},
			map[string]float64{"reallocatedSectors": 1984, "pendingSectors": 16, "temperature": 61, "powerOnHours": 58731},
		},
		"worn-nvme.json": {
			[]string{"smart-failing", "nvme-critical-warning", "endurance", "media-errors", "disk-hot"},
			map[string]float64{"percentUsed": 103, "mediaErrors": 7, "temperature": 74},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := Disks(fakeSmartctl(t, map[string]string{"/dev/sda": name})).Run(t.Context())
			var want []string
			for _, code := range c.want {
				want = append(want, "disk/sda "+code)
			}
			if err != nil || !slices.Equal(codes(found), want) {
				t.Fatalf("found %v, %v", codes(found), err)
			}
			for key, v := range c.values {
				if found[0].Values[key] != v {
					t.Errorf("%s is %v instead of %v", key, found[0].Values[key], v)
				}
			}
		})
	}
}

// TestBrokenDiskHidesNoOther gives each kind of unusable output for one disk, beside a failing one.
func TestBrokenDiskHidesNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ output, reason string }{
		"empty":      {"", "it wrote nothing"},
		"truncated":  {`{"smart_status": {"passed": tr`, "not complete JSON"},
		"no JSON":    {"Segmentation fault", "not complete JSON"},
		"wrong type": {`{"model_name": "A", "temperature": {"current": "hot"}}`, `wrong type in "temperature.current"`},
		"list":       {`[]`, "wrong type"},
		"nothing":    {`{}`, "nothing about the disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := Disks(fakeSmartctl(t, map[string]string{"/dev/sda": c.output, "/dev/sdb": "failing-hdd.json"})).Run(t.Context())
			p, _ := errors.AsType[Partial](err)
			if !slices.Equal(p.Unread, []string{"disk/sda"}) || !strings.Contains(p.Reason, "1 of 2 disks") || !strings.Contains(p.Reason, c.reason) {
				t.Errorf("the error is %+v", err)
			}
			if len(found) != 5 || found[0].Object != "disk/sdb" {
				t.Errorf("found %v", codes(found))
			}
		})
	}
}

func TestDisksOfScan(t *testing.T) {
	t.Parallel()
	missing := func(context.Context, ...string) ([]byte, int, error) { return nil, 0, errNotInstalled }
	if _, err := Disks(missing).Run(t.Context()); !strings.Contains(err.Error(), "smartmontools") {
		t.Errorf("without smartctl: %v", err)
	}
	if _, err := Disks(fakeSmartctl(t, nil)).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("without disks: %v", err)
	}
	if _, err := Disks(func(context.Context, ...string) ([]byte, int, error) { return []byte("{"), 0, nil }).Run(t.Context()); err == nil {
		t.Error("a broken scan gives no error")
	}
	got := diskObjects([]smartDevice{{Name: "/dev/sda"}, {Name: "/dev/bus/6", Type: "megaraid,8"}, {Name: "/dev/bus/6", Type: "megaraid,9"}})
	if want := []string{"disk/sda", "disk/bus/6/megaraid,8", "disk/bus/6/megaraid,9"}; !slices.Equal(got, want) {
		t.Errorf("the objects are %v", got)
	}
}

func TestSleepingDiskKeepsItsFindingsAndIsNoFault(t *testing.T) {
	t.Parallel()
	asleep := func(_ context.Context, args ...string) ([]byte, int, error) {
		if slices.Contains(args, "--scan-open") {
			return []byte(`{"devices": [{"name": "/dev/sda", "type": "sat"}]}`), 0, nil
		}
		return []byte(`{"smartctl": {"exit_status": 2, "messages": [{"string": "Device is in STANDBY mode, exit(2)", "severity": "information"}]}}`), 2, nil
	}
	_, err := Disks(asleep).Run(t.Context())
	if p, ok := errors.AsType[Partial](err); !ok || p.Reason != "" || !slices.Equal(p.Unread, []string{"disk/sda"}) {
		t.Errorf("the error is %+v", err)
	}
}

func TestTemperatureOfDiskDoesNotFlap(t *testing.T) {
	t.Parallel()
	temperature := 0
	disks := Disks(func(_ context.Context, args ...string) ([]byte, int, error) {
		if slices.Contains(args, "--scan-open") {
			return []byte(`{"devices": [{"name": "/dev/sda"}]}`), 0, nil
		}
		return fmt.Appendf(nil, `{"model_name": "A", "rotation_rate": 7200, "temperature": {"current": %d}}`, temperature), 0, nil
	})
	for _, step := range []struct {
		celsius int
		hot     bool
	}{{59, false}, {60, true}, {58, true}, {57, false}, {59, false}} {
		temperature = step.celsius
		found, err := disks.Run(t.Context())
		if err != nil || len(found) == 1 != step.hot {
			t.Errorf("at %d °C: %v, %v", step.celsius, codes(found), err)
		}
	}
}
