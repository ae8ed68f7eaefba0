package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

const (
	filterMaxAge      = 15 * time.Second
	filterReadTimeout = time.Second
)

// ChangeMessages returns the messages about Quantix's network filters that were changed outside Quantix, by filter
// name. A filter that an older agent wrote has no digest, so ChangeMessages detects its changes only once Quantix has
// written the filter again.
func (fs *Filters) ChangeMessages(ctx context.Context) map[string]string {
	return fs.drift.Read(ctx, filterMaxAge, filterReadTimeout, fs.compareFilters).Value
}

// LastChangeMessages returns the result of the last call of ChangeMessages.
func (fs *Filters) LastChangeMessages() map[string]string { return fs.drift.State().Value }

func (fs *Filters) compareFilters() (map[string]string, error) {
	known := fs.book.All()
	if len(known) == 0 {
		return nil, nil
	}
	c, err := fs.daemon.Dial(fs.daemon.RunContext)
	if err != nil {
		return nil, err
	}
	defer c.Disconnect()
	out, bridgeErr := map[string]string{}, checkBridgeFiltering(bridgeSettingsDir)
	for name := range known {
		message, err := fs.compareFilter(fs.daemon.RunContext, c, name)
		if conn.IsObjectError(err) {
			message, err = "The host cannot read the network filter "+name+": "+err.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		if message == "" && bridgeErr != nil && strings.HasPrefix(name, secgroup.FilterPrefix+"group-") {
			message = bridgeErr.Error()
		}
		if message != "" {
			out[name] = message
		}
	}
	return out, nil
}

// compareFilter compares one filter with its record, and returns a message if they differ. No filter is written
// meanwhile.
func (fs *Filters) compareFilter(ctx context.Context, c *conn.Conn, name string) (message string, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	known := fs.book.Digest(name)
	if known == "" {
		return "", nil // Quantix removed the filter meanwhile
	}
	ref, err := findFilter(ctx, c, name)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
		return hypervisor.FilterMissingText(name), nil
	}
	if err != nil {
		return "", err
	}
	x, err := filterXML(ctx, c, ref)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
		return hypervisor.FilterMissingText(name), nil
	}
	if err == nil && filterDigest(x) != known {
		message = hypervisor.FilterChangedText(name)
	}
	return message, err
}

// filterDigest returns a digest of the filter's XML.
func filterDigest(x libvirtxml.NWFilter) string {
	text, err := x.Marshal()
	if err != nil {
		return err.Error() // equals no digest
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ChangedGroupReports returns the reports of security groups whose filters were changed outside Quantix.
func ChangedGroupReports(changed map[string]string) []wire.GroupReport {
	var out []wire.GroupReport
	for name, message := range changed {
		if id, ours := strings.CutPrefix(name, secgroup.FilterPrefix+"group-"); ours {
			out = append(out, wire.GroupReport{ID: fleet.SecurityGroupID(id), Changed: message})
		}
	}
	slices.SortFunc(out, func(x, y wire.GroupReport) int { return strings.Compare(string(x.ID), string(y.ID)) })
	return out
}
