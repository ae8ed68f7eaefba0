package wire

import "time"

// Patience has the client wait so long for a claim's answer.
func (c *Client) Patience(d time.Duration) { c.patience = d }
