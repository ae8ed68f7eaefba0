package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

// NewVM is the request for a VM. Spec.Power is optional; the Volume of each disk in the spec must be empty.
type NewVM struct {
	ProjectID   fleet.ProjectID   `json:"projectId"`
	Name        string            `json:"name"`
	HostID      fleet.HostID      `json:"hostId,omitempty"` // empty: the portal chooses
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
	Spec        fleet.VMSpec      `json:"spec"`
	Start       bool              `json:"start,omitempty"`
	Overcommit  bool              `json:"overcommit,omitempty"` // allow more storage than the pool has
}

// Patch is a JSON merge patch. Fields that are not in it stay unchanged, and nil removes a field.
type Patch map[string]any

// VMs returns one page of the VMs.
func (c *Client) VMs(ctx context.Context, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	return getPage[fleet.VMView](ctx, c, q, "vms")
}

// VM returns one VM.
func (c *Client) VM(ctx context.Context, id fleet.VMID) (fleet.VMView, error) {
	return getObject[fleet.VMView](ctx, c, "vms", string(id))
}

// CreateVM creates a VM. Another call with the same idempotency key (empty: none) returns the same VM.
func (c *Client) CreateVM(ctx context.Context, in NewVM, key string) (fleet.VMView, error) {
	var vm fleet.VMView
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: "vms", in: in, out: &vm, header: map[string]string{"Idempotency-Key": key},
	})
	return vm, err
}

// UpdateVM changes a VM: Patch{"spec": Patch{"cpus": 4}}. If generation is not 0, it must be the VM's current
// generation. The returned task applies the change on the host; it is empty if nothing has changed.
func (c *Client) UpdateVM(ctx context.Context, id fleet.VMID, p Patch, generation int64) (fleet.VMView, fleet.TaskID, error) {
	var vm fleet.VMView
	var match string
	if generation != 0 {
		match = strconv.FormatInt(generation, 10)
	}
	header, err := c.do(ctx, request{
		method: http.MethodPatch, path: joinPath([]string{"vms", string(id)}), in: p, out: &vm,
		header: map[string]string{"If-Match": match, "Content-Type": "application/merge-patch+json"},
	})
	return vm, fleet.TaskID(header.Get("Quantix-Task")), err
}

// DeleteVM deletes a VM, past the recycle bin. To delete its disks, too, set disks, and set confirm to the VM's name.
func (c *Client) DeleteVM(ctx context.Context, id fleet.VMID, disks bool, confirm string) (fleet.Task, error) {
	var task fleet.Task
	q := url.Values{}
	if disks {
		q.Set("disks", "true")
		q.Set("confirm", confirm)
		q.Set("purge", "true")
	}
	_, err := c.do(ctx, request{method: http.MethodDelete, path: joinPath([]string{"vms", string(id)}), query: q, out: &task})
	return task, err
}

// RequestAction requests a power action on a VM.
func (c *Client) RequestAction(ctx context.Context, id fleet.VMID, action fleet.Action) (fleet.Task, error) {
	return changeObject[fleet.Task](ctx, c, http.MethodPost, map[string]fleet.Action{"action": action}, "vms", string(id), "actions")
}

// VMEvents are the audit entries and tasks of a VM, newest first.
type VMEvents struct {
	Audit []fleet.AuditEntry `json:"audit"`
	Jobs  []fleet.Task       `json:"jobs"`
}

// VMEvents returns the newest events of a VM.
func (c *Client) VMEvents(ctx context.Context, id fleet.VMID) (VMEvents, error) {
	return getObject[VMEvents](ctx, c, "vms", string(id), "events")
}

// Console opens the console of a VM: RFB bytes in binary websocket messages.
func (c *Client) Console(ctx context.Context, id fleet.VMID) (*websocket.Conn, error) {
	ticket, err := changeObject[struct{ URL, Protocol string }](ctx, c, http.MethodPost, nil, "vms", string(id), "console")
	if err != nil {
		return nil, err
	}
	u := c.portal.JoinPath(ticket.URL)
	u.Scheme = map[string]string{"https": "wss", "http": "ws"}[u.Scheme]
	d := websocket.Dialer{Subprotocols: []string{"binary", ticket.Protocol}, HandshakeTimeout: c.http.Timeout}
	if t, ok := c.http.Transport.(*http.Transport); ok {
		d.TLSClientConfig, d.NetDialContext, d.Proxy = t.TLSClientConfig, t.DialContext, t.Proxy
	}
	ws, answer, err := d.DialContext(ctx, u.String(), http.Header{"Authorization": {"Bearer " + c.token}})
	if errors.Is(err, websocket.ErrBadHandshake) {
		defer answer.Body.Close()
		return nil, problemError(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("open the console: %w", err)
	}
	return ws, nil
}
