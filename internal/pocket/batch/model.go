package batch

import _ "embed"

// modelData are the constraints on the inputs, taken from AWS's own model as
// botocore publishes it (Apache License 2.0).
//
//go:embed model.json
var modelData []byte
