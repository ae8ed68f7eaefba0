package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"quantix/internal/fleet"
)

// Hosts returns one page of the hosts.
func (c *Client) Hosts(ctx context.Context, q fleet.Query) (fleet.Page[fleet.HostView], error) {
	return getPage[fleet.HostView](ctx, c, q, "hosts")
}

// Host returns one host.
func (c *Client) Host(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	return getObject[fleet.HostView](ctx, c, "hosts", string(id))
}

// UpdateHost changes a host: Patch{"spec": Patch{"labels": Patch{"rack": "r1"}}}.
func (c *Client) UpdateHost(ctx context.Context, id fleet.HostID, p Patch) (fleet.HostView, error) {
	return changeObject[fleet.HostView](ctx, c, http.MethodPatch, p, "hosts", string(id))
}

// DeleteHost removes a host that has no VMs.
func (c *Client) DeleteHost(ctx context.Context, id fleet.HostID) error {
	return c.send(ctx, http.MethodDelete, nil, "hosts", string(id))
}

// ClearConflict clears the flag that a second agent uses the host's identity.
func (c *Client) ClearConflict(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	return c.ActOnHost(ctx, id, fleet.ActClearConflict)
}

// ActOnHost executes an action on a host: cordon, uncordon or clear-conflict.
func (c *Client) ActOnHost(ctx context.Context, id fleet.HostID, act fleet.Action) (fleet.HostView, error) {
	return changeObject[fleet.HostView](ctx, c, http.MethodPost, map[string]fleet.Action{"action": act}, "hosts", string(id), "actions")
}

// DiscoveredVMs returns one page of a host's unmanaged VMs.
func (c *Client) DiscoveredVMs(ctx context.Context, id fleet.HostID, q fleet.Query) (fleet.Page[fleet.DiscoveredVM], error) {
	return getPage[fleet.DiscoveredVM](ctx, c, q, "hosts", string(id), "discovered-vms")
}

// NewPool is the request for a pool on some hosts.
type NewPool struct {
	Name    string         `json:"name"`
	Spec    fleet.PoolSpec `json:"spec"`
	HostIDs []fleet.HostID `json:"hostIds"`
}

// Ref is the ID and name of another object.
type Ref struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Volume is a volume of a pool, with its hosts and the VM that uses it as a disk.
type Volume struct {
	fleet.Volume
	PoolID   fleet.PoolID `json:"poolId"`
	PoolName string       `json:"poolName"`
	Shared   bool         `json:"shared"`
	Hosts    []Ref        `json:"hosts"`
	VM       *Ref         `json:"vm"`
	// Publication is set if projects may use the volume as an image, possibly outdated; nil: not published.
	Publication *Published `json:"published"`
	Unfit       string     `json:"unfit"` // reason why the volume cannot be published
}

// Published records who published a volume, and when.
type Published struct {
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Stale string    `json:"stale"`
}

// Pools returns one page of the pools.
func (c *Client) Pools(ctx context.Context, q fleet.Query) (fleet.Page[fleet.PoolView], error) {
	return getPage[fleet.PoolView](ctx, c, q, "pools")
}

// Pool returns one pool with its status on each host.
func (c *Client) Pool(ctx context.Context, id fleet.PoolID) (fleet.PoolView, error) {
	return getObject[fleet.PoolView](ctx, c, "pools", string(id))
}

// CreatePool creates a pool.
func (c *Client) CreatePool(ctx context.Context, in NewPool) (fleet.PoolView, error) {
	return changeObject[fleet.PoolView](ctx, c, http.MethodPost, in, "pools")
}

// DeletePool deletes a pool. The data in its storage stays.
func (c *Client) DeletePool(ctx context.Context, id fleet.PoolID) ([]fleet.Task, error) {
	return c.requestTasks(ctx, http.MethodDelete, "pools", string(id))
}

// AssignPool assigns a pool to a host.
func (c *Client) AssignPool(ctx context.Context, id fleet.PoolID, host fleet.HostID) ([]fleet.Task, error) {
	return c.requestTasks(ctx, http.MethodPut, "pools", string(id), "hosts", string(host))
}

// ReleasePool removes the assignment of a pool to a host.
func (c *Client) ReleasePool(ctx context.Context, id fleet.PoolID, host fleet.HostID) ([]fleet.Task, error) {
	return c.requestTasks(ctx, http.MethodDelete, "pools", string(id), "hosts", string(host))
}

// RetryPool retries the setup of a pool on a host.
func (c *Client) RetryPool(ctx context.Context, id fleet.PoolID, host fleet.HostID) ([]fleet.Task, error) {
	return c.requestTasks(ctx, http.MethodPost, "pools", string(id), "hosts", string(host), "retry")
}

func (c *Client) requestTasks(ctx context.Context, method string, path ...string) ([]fleet.Task, error) {
	page, err := changeObject[fleet.Page[fleet.Task]](ctx, c, method, nil, path...)
	return page.Items, err
}

// Volumes returns all volumes of a pool.
func (c *Client) Volumes(ctx context.Context, id fleet.PoolID) ([]Volume, error) {
	page, err := getObject[fleet.Page[Volume]](ctx, c, "pools", string(id), "volumes")
	return page.Items, err
}

// PublishImage publishes a volume as an image. For a local pool, host selects the host whose volume is published;
// empty: the volume on every host.
func (c *Client) PublishImage(ctx context.Context, id fleet.PoolID, volume string, host fleet.HostID) error {
	return c.setPublished(ctx, http.MethodPut, id, volume, host)
}

// WithdrawImage reverts PublishImage.
func (c *Client) WithdrawImage(ctx context.Context, id fleet.PoolID, volume string, host fleet.HostID) error {
	return c.setPublished(ctx, http.MethodDelete, id, volume, host)
}

func (c *Client) setPublished(ctx context.Context, method string, id fleet.PoolID, volume string, host fleet.HostID) error {
	q := url.Values{}
	if host != "" {
		q.Set("host", string(host))
	}
	_, err := c.do(ctx, request{method: method, path: joinPath([]string{"pools", string(id), "images", volume}), query: q})
	return err
}

// PoolVMs returns one page of the VMs that have disks in a pool.
func (c *Client) PoolVMs(ctx context.Context, id fleet.PoolID, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	return getPage[fleet.VMView](ctx, c, q, "pools", string(id), "vms")
}

// Networks returns one page of the networks.
func (c *Client) Networks(ctx context.Context, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
	return getPage[fleet.NetworkView](ctx, c, q, "networks")
}

// Network returns one network.
func (c *Client) Network(ctx context.Context, id fleet.NetworkID) (fleet.NetworkView, error) {
	return getObject[fleet.NetworkView](ctx, c, "networks", string(id))
}
