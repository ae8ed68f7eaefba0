package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

const (
	maxDisks        = 128
	smartDiskLimit  = 20 * time.Second
	maxNamedUnread  = 4 // disks whose reason the check's reason contains
	smartStandbyBit = 2 // exit status of smartctl -n standby for a sleeping disk, and for one that cannot be opened
)

// Disks returns the check of the disks by smartctl. It does not wake a sleeping disk.
func Disks(smartctl Program) Check {
	c := &diskCheck{smartctl: smartctl, hot: map[string]bool{}}
	return Check{Name: "smart", Interval: 10 * time.Minute, Timeout: 5 * time.Minute, Run: c.run}
}

type diskCheck struct {
	smartctl Program
	hot      map[string]bool // disks that were too hot at the last run
}

// smartDevice is a device of smartctl --scan-open.
type smartDevice struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Error string `json:"open_error"`
}

func (c *diskCheck) run(ctx context.Context) ([]healthevent.Finding, error) {
	devices, err := c.scan(ctx)
	if err != nil {
		return nil, err
	}
	var out []healthevent.Finding
	var unread []string
	var reasons []string
	objects := diskObjects(devices)
	for i, d := range devices {
		found, err := c.readDisk(ctx, objects[i], d)
		switch {
		case errors.Is(err, errStandby):
			unread = append(unread, objects[i])
		case err != nil:
			unread = append(unread, objects[i])
			reasons = append(reasons, strings.TrimPrefix(objects[i], "disk/")+": "+err.Error())
		}
		out = append(out, found...)
	}
	if len(unread) == 0 {
		return out, nil
	}
	p := Partial{Unread: unread}
	if n := len(reasons); n > 0 {
		p.Reason = fmt.Sprintf("%d of %s cannot be read. %s", n, fleet.CountWithUnit(len(devices), "disk"), strings.Join(reasons[:min(n, maxNamedUnread)], "; "))
	}
	return out, p
}

// scan returns the disks that smartctl knows.
func (c *diskCheck) scan(ctx context.Context) ([]smartDevice, error) {
	within, cancel := context.WithTimeout(ctx, smartDiskLimit)
	defer cancel()
	text, _, err := c.smartctl(within, "--json", "--scan-open")
	if errors.Is(err, errNotInstalled) {
		return nil, Unavailable("smartctl is not installed. Install the package smartmontools to check disks.")
	}
	if err != nil {
		return nil, fmt.Errorf("smartctl --scan-open: %w", err)
	}
	var answer struct {
		Devices []smartDevice `json:"devices"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("smartctl --scan-open: %w", badJSON(text, err))
	}
	if len(answer.Devices) == 0 {
		return nil, Unavailable("smartctl finds no disk with SMART.")
	}
	return answer.Devices[:min(len(answer.Devices), maxDisks)], nil
}

// diskObjects returns the object of each device: "disk/sda". Disks behind one controller also have their type.
func diskObjects(devices []smartDevice) []string {
	count := map[string]int{}
	for _, d := range devices {
		count[d.Name]++
	}
	out := make([]string, len(devices))
	for i, d := range devices {
		out[i] = "disk/" + strings.TrimPrefix(d.Name, "/dev/")
		if count[d.Name] > 1 {
			out[i] += "/" + d.Type
		}
	}
	return out
}

var errStandby = errors.New("the disk sleeps")

func (c *diskCheck) readDisk(ctx context.Context, object string, d smartDevice) ([]healthevent.Finding, error) {
	if d.Error != "" {
		return nil, errors.New(d.Error)
	}
	if !strings.HasPrefix(d.Name, "/dev/") {
		return nil, errors.New("smartctl gave a device that is not below /dev")
	}
	if ctx.Err() != nil {
		return nil, errors.New("the time of the check was over")
	}
	within, cancel := context.WithTimeout(ctx, smartDiskLimit)
	defer cancel()
	args := []string{"--json", "-a", "-n", "standby"}
	if d.Type != "" {
		args = append(args, "-d", d.Type)
	}
	text, status, err := c.smartctl(within, append(args, d.Name)...)
	if err != nil {
		return nil, err
	}
	r, err := parseSMART(text)
	if err != nil {
		return nil, err
	}
	if reason := r.openError(status); reason != "" {
		if strings.Contains(strings.ToUpper(reason), "STANDBY") || strings.Contains(strings.ToUpper(reason), "SLEEP") {
			return nil, errStandby
		}
		return nil, errors.New(reason)
	}
	found := r.findings(object, c.hot[object])
	c.hot[object] = hasCode(found, "disk-hot")
	return found, nil
}

func hasCode(all []healthevent.Finding, code string) bool {
	for _, f := range all {
		if f.Code == code {
			return true
		}
	}
	return false
}

// badJSON returns the reason why a program's output is not usable.
func badJSON(text []byte, err error) error {
	if len(strings.TrimSpace(string(text))) == 0 {
		return errors.New("it wrote nothing")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("its output has a wrong type in %q", wrong.Field)
	}
	return errors.New("its output is not complete JSON")
}
