// Goes through a job's and a service's life with Google's own clients for Node.js,
// and prints what they saw as JSON. Arguments: grpc|rest|discovery PORT PARENT.
import {createRequire} from 'node:module';
const require = createRequire(process.cwd() + '/');
const [mode, port, parent] = process.argv.slice(2);
const template = (...argv) => ({template: {maxRetries: 0, containers: [{image: 'app', command: argv.slice(0, 1), args: argv.slice(1)}]}});
const service = count => ({template: {containers: [{image: 'app', command: ['sleep'], args: ['60']}]}, scaling: {scalingMode: 'MANUAL', manualInstanceCount: count}});
const seen = v => ({name: v.name, count: v.scaling.manualInstanceCount, generation: Number(v.generation), observed: Number(v.observedGeneration), ready: v.terminalCondition.state, revision: v.latestReadyRevision});
const plain = value => JSON.parse(JSON.stringify(value));
const out = {};

async function generated(fallback) {
	const run = require('@google-cloud/run').v2;
	// gRPC needs credentials of its own kind, REST something that adds headers.
	const options = {apiEndpoint: '127.0.0.1', port: Number(port), protocol: 'http', projectId: 'pocket-project', fallback};
	if (fallback) {
		options.auth = {getUniverseDomain: async () => 'googleapis.com', getRequestHeaders: async () => new Headers({authorization: 'Bearer x'}), getClient: async () => ({}),
			fetch: (url, init) => fetch(url, init)};
	} else {
		options.sslCreds = require('@grpc/grpc-js').credentials.createInsecure();
	}
	const jobs = new run.JobsClient(options), executions = new run.ExecutionsClient(options), tasks = new run.TasksClient(options);
	const [create] = await jobs.createJob({parent, jobId: mode, job: {template: template('sh', '-c', 'echo hi; exit 4')}});
	const [job] = await create.promise();
	out.job = {name: job.name, state: job.terminalCondition.state, retries: job.template.template.maxRetries};
	const [ran] = await jobs.runJob({name: job.name});
	out.started = ran.metadata.job;
	try { await ran.promise(); } catch (e) { out.failure = {code: e.code, message: e.message}; }
	const [list] = await executions.listExecutions({parent: job.name});
	out.executions = list.map(e => ({failed: e.failedCount, tasks: e.taskCount, reason: e.conditions[0].executionReason}));
	const [ended] = await tasks.listTasks({parent: list[0].name});
	out.tasks = ended.map(t => ({exit: t.lastAttemptResult.exitCode, code: t.lastAttemptResult.status.code}));
	const [held] = await jobs.runJob({name: job.name, overrides: {containerOverrides: [{args: ['-c', 'exec sleep 60']}]}});
	const [cancel] = await executions.cancelExecution({name: held.metadata.name});
	const [cancelled] = await cancel.promise();
	out.cancelled = cancelled.cancelledCount;
	try { await jobs.getJob({name: parent + '/jobs/none'}); } catch (e) { out.missing = {code: e.code, message: e.message}; }
	try { await jobs.createJob({parent, jobId: 'Bad', job: {template: template('true')}}); } catch (e) {
		out.invalid = {code: e.code, field: e.statusDetails?.[0]?.fieldViolations?.[0]?.field};
	}
	const [remove] = await jobs.deleteJob({name: job.name});
	const [gone] = await remove.promise();
	out.deleted = Boolean(gone.deleteTime);
	const services = new run.ServicesClient(options), revisions = new run.RevisionsClient(options);
	const made = async call => (await (await call)[0].promise())[0];
	const v = await made(services.createService({parent, serviceId: 's-' + mode, service: service(1)}));
	out.service = seen(v);
	v.scaling.manualInstanceCount = 2;
	const scaled = await made(services.updateService({service: v}));
	out.scaled = seen(scaled);
	try { await services.updateService({service: {...v, etag: 'stale'}}); } catch (e) { out.conflict = {code: e.code, message: e.message}; }
	// This client doesn't know forceNewRevision.
	out.restarted = seen(await made(services.updateService({service: {...scaled, etag: '', template: {...scaled.template, annotations: {restarted: '1'}}}})));
	out.listed = (await services.listServices({parent}))[0].map(s => s.name);
	out.revisions = (await revisions.listRevisions({parent: v.name}))[0].length;
	out.serviceDeleted = Boolean((await made(services.deleteService({name: v.name}))).deleteTime);
	await Promise.all([jobs.close(), executions.close(), tasks.close(), services.close(), revisions.close()]);
}

async function discovery() {
	const {run} = require('@googleapis/run');
	const api = run({version: 'v2', rootUrl: `http://127.0.0.1:${port}/`, headers: {authorization: 'Bearer x'}});
	const l = api.projects.locations;
	const wait = async op => {
		while (!op.data.done) op = await l.operations.wait({name: op.data.name, requestBody: {timeout: '5s'}});
		return op.data;
	};
	const job = await wait(await l.jobs.create({parent, jobId: mode, requestBody: {template: template('sh', '-c', 'echo hi; exit 4')}}));
	out.job = {name: job.response.name, state: job.response.terminalCondition.state, retries: job.response.template.template.maxRetries ?? 0};
	const ran = await l.jobs.run({name: job.response.name});
	out.started = ran.data.metadata.job;
	const failed = await wait(ran);
	out.failure = {code: failed.error.code, message: failed.error.message};
	const {data: {executions: list}} = await l.jobs.executions.list({parent: job.response.name});
	out.executions = list.map(e => ({failed: e.failedCount, tasks: e.taskCount, reason: e.conditions[0].executionReason}));
	const {data: {tasks}} = await l.jobs.executions.tasks.list({parent: list[0].name});
	out.tasks = tasks.map(t => ({exit: t.lastAttemptResult.exitCode, code: t.lastAttemptResult.status.code}));
	const held = await l.jobs.run({name: job.response.name, requestBody: {overrides: {containerOverrides: [{args: ['-c', 'exec sleep 60']}]}}});
	const cancelled = await wait(await l.jobs.executions.cancel({name: held.data.metadata.name, requestBody: {}}));
	out.cancelled = cancelled.response.cancelledCount;
	try { await l.jobs.get({name: parent + '/jobs/none'}); } catch (e) { out.missing = {code: Number(e.code ?? e.status), message: e.message}; }
	try { await l.jobs.create({parent, jobId: 'Bad', requestBody: {template: template('true')}}); } catch (e) {
		out.invalid = {code: Number(e.code ?? e.status), field: e.response.data.error.details[0].fieldViolations[0].field};
	}
	out.deleted = Boolean((await wait(await l.jobs.delete({name: job.response.name}))).response.deleteTime);
	const now = async done => (await l.services.get({name: done.response.name})).data;
	const v = await now(await wait(await l.services.create({parent, serviceId: 's-' + mode, requestBody: service(1)})));
	out.service = seen(v);
	const scaled = await now(await wait(await l.services.patch({name: v.name, requestBody: {...v, scaling: {scalingMode: 'MANUAL', manualInstanceCount: 2}}})));
	out.scaled = seen(scaled);
	try { await l.services.patch({name: v.name, requestBody: {...v, etag: 'stale'}}); } catch (e) { out.conflict = {code: Number(e.code ?? e.status), message: e.message}; }
	out.restarted = seen((await wait(await l.services.patch({name: v.name, forceNewRevision: true, requestBody: {...scaled, etag: ''}}))).response);
	out.listed = (await l.services.list({parent})).data.services.map(s => s.name);
	out.revisions = (await l.services.revisions.list({parent: v.name})).data.revisions.length;
	out.serviceDeleted = Boolean((await wait(await l.services.delete({name: v.name}))).response.deleteTime);
}

await (mode === 'discovery' ? discovery() : generated(mode === 'rest' ? 'rest' : false));
process.stdout.write(JSON.stringify(plain(out)));
