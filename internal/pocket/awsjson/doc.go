// Package awsjson is the server's side of AWS JSON 1.1, the protocol of ECS,
// CloudWatch Logs, Secrets Manager and Systems Manager: requests are POSTs with
// the operation in X-Amz-Target, errors have their name in __type.
//
// Requests are decoded strictly, against the schemas of AWS's own SDK and the
// constraints of its models; a member that the operation hasn't is refused,
// where the real service might overlook it. Replies are written by the SDK's
// encoder. See https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html.
package awsjson
