package redfish

import (
	"context"
	"net/netip"
	"time"
)

// SetLimit replaces the time limit of a call.
func (c *Connector) SetLimit(d time.Duration) { c.limit = d }

// SetLookup replaces the resolver of names.
func (c *Connector) SetLookup(lookup func(ctx context.Context, host string) ([]netip.Addr, error)) {
	c.dialer.Lookup = lookup
}
